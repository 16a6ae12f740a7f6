# Two Debian packages, by CPack (`make package`): librlcore-dev is the library as it is installed anywhere else,
# rlcore-tools the programs, for any x86-64 machine, with their pages of documentation.
include_guard(GLOBAL)
include(GNUInstallDirs)

if(RLCORE_NATIVE)
  message(FATAL_ERROR "rlcore: packages are for other machines too: RLCORE_PACKAGES needs -DRLCORE_NATIVE=OFF")
endif()
set(RLCORE_PROGRAM_DIR lib/rlcore/bin)
# Debian has no Arrow C++, so that the one that was linked travels along.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../arrow")
if(TARGET rlcore::parquet)
  get_target_property(arrow rlcore::parquet INTERFACE_LINK_LIBRARIES)
  foreach(file IN LISTS arrow)
    if(EXISTS "${file}")
      install(FILES "${file}" DESTINATION lib/rlcore/arrow COMPONENT tools)
      cmake_path(GET file PARENT_PATH arrow_folder)
    endif()
  endforeach()
  if(arrow_folder)
    file(GLOB terms "${arrow_folder}/../pyarrow-*.dist-info/licenses/*.txt" "${arrow_folder}/../pyarrow-*.dist-info/LICENSE.txt"
      "${arrow_folder}/../pyarrow-*.dist-info/NOTICE.txt")
    install(FILES ${terms} DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/rlcore-tools/arrow" COMPONENT tools)
  endif()
endif()

install(PROGRAMS "${PROJECT_SOURCE_DIR}/packaging/rlcore" DESTINATION bin COMPONENT tools)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/rlcore-tools" COMPONENT tools)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/rlcore-tools" COMPONENT tools
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/minimal" COMPONENT dev
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/librlcore-dev/examples")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rlcore)
set(CPACK_PACKAGE_VENDOR rlcore)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dev tools)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The rlcore maintainers <maintainers@rlcore.invalid>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${arrow_folder}")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME librlcore-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
string(CONCAT CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS
  "g++ (>= 4:12), cmake (>= 3.22), nlohmann-json3-dev, libpcre2-dev, libutf8proc-dev, libfmt-dev, libpng-dev, libjpeg-dev, "
  "libwebp-dev, libdeflate-dev, libyaml-cpp-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libeigen3-dev, libxtensor-dev, libopenmpi-dev, rlcore-tools")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Losses and trainers of LLM post-training as a header-only C++20 library
 Tensor type, device and parallel strategy are compile-time policies; every
 objective becomes one fused loop with an analytic gradient.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME rlcore-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "librlcore-dev, openmpi-bin")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Trainers of language models that take the command lines of verl and OpenRLHF
 GRPO, DAPO, PPO, REINFORCE++, SFT, DPO, KTO, reward models, evaluation and
 tools. `rlcore` lists the programs, `rlcore quickstart` trains a small model.")
include(CPack)
