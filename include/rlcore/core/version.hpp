// The version of the library; CMake reads it from here.
#pragma once

#define RLCORE_VERSION_MAJOR 0
#define RLCORE_VERSION_MINOR 1
#define RLCORE_VERSION_PATCH 0
#define RLCORE_VERSION_STRING "0.1.0"
