// What most tests include, compiled once for all of them. A test includes what it uses all the same.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <thread>
#include <unordered_map>
#include <variant>

#include "rlcore/device/cpu.hpp"
#include "rlcore/losses.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

extern template class nlohmann::basic_json<>;  // support/json.cpp
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
