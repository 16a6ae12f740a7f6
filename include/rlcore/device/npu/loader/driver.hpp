// Detection of Ascend's driver from files.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend {

/// A file under /dev.
struct device_file {
  std::string path;       ///< "/dev/davinci0"
  bool openable = false;  ///< this user may read and write it
};

/// The driver is not part of the toolkit: it has its own installer, and containers need it and the devices mounted.
struct driver_files {
  std::string folder;   ///< "/usr/local/Ascend/driver"; empty if missing
  std::string version;  ///< "24.1.rc2"; empty if unknown
  std::vector<device_file> devices;
  std::vector<device_file> managers;  ///< /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc, those that exist
};

/// Looks below `root`, which is only for tests.
driver_files find_driver(const std::string& root = "");

/// The problem of a driver and its remedy, in one line; empty if no problem is known.
std::string driver_problem(const driver_files& d);

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE driver_files find_driver(const std::string& root) {
  driver_files found;
  const auto file = [&](const std::string& path, std::vector<device_file>& to) {
    if (access((root + path).c_str(), F_OK) == 0)
      to.push_back({root + path, access((root + path).c_str(), R_OK | W_OK) == 0});
  };
  for (int i = 0; i < 64; ++i) file("/dev/davinci" + std::to_string(i), found.devices);
  for (const char* name : {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"}) file(name, found.managers);
  const std::string folder = root + "/usr/local/Ascend/driver";
  if (access(folder.c_str(), F_OK) != 0) return found;
  found.folder = folder;
  if (std::FILE* f = std::fopen((folder + "/version.info").c_str(), "r"); f != nullptr) {
    char line[256];
    constexpr std::string_view key = "Version=";
    while (found.version.empty() && std::fgets(line, sizeof line, f) != nullptr)
      if (std::string_view(line).substr(0, key.size()) == key) found.version = line + key.size();
    std::fclose(f);
    while (!found.version.empty() && static_cast<unsigned char>(found.version.back()) <= ' ') found.version.pop_back();
  }
  return found;
}

RLCORE_INLINE std::string driver_problem(const driver_files& d) {
  if (d.folder.empty() && d.devices.empty())
    return "no Ascend driver: neither /usr/local/Ascend/driver nor /dev/davinci* is there; install the driver, or in a "
           "container pass --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device "
           "/dev/hisi_hdc -v /usr/local/Ascend/driver:/usr/local/Ascend/driver";
  if (d.folder.empty())
    return "the driver's folder /usr/local/Ascend/driver is missing though there are devices: mount it into the "
           "container (-v /usr/local/Ascend/driver:/usr/local/Ascend/driver)";
  if (d.devices.empty())
    return "the driver is installed, but there is no /dev/davinci*: pass --device to the container, "
           "or see npu-smi info and dmesg";
  for (const auto* files : {&d.devices, &d.managers})
    for (const device_file& f : *files)
      if (!f.openable)
        return "this user may not open " + f.path +
               ": add the user to the group HwHiAiUser (sudo usermod -aG HwHiAiUser "
               "$USER) and log in again";
  return {};
}

}  // namespace ascend
RLCORE_END
#endif
