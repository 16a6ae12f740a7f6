// Programs of build/bin as ranks of mpirun.
#pragma once

#include <string>

#include "program.hpp"

namespace program {

/// Shell text in front of a program, or nothing where this machine or this build has no MPI.
inline std::string mpirun(int ranks) {
  static const std::string options = [] {
    if (std::system("mpirun --version > /dev/null 2>&1") != 0) return std::string();
    std::string found =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
        "OMPI_MCA_hwloc_base_binding_policy=none mpirun";
    const result r = run("evaluate", {"data.files=none"}, found + " -np 2");
    return r.err.find("no MPI") == std::string::npos ? found : std::string();
  }();
  return options.empty() ? options : options + " -np " + std::to_string(ranks);
}

}  // namespace program
