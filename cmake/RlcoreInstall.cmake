# The installation: headers, licence, the CMake package with the sources of its compiled parts, and a pkg-config file.
include_guard(GLOBAL)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rlcore")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rlcore" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT dev
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inc")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT dev)
install(TARGETS rlcore EXPORT rlcore INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT rlcore NAMESPACE rlcore:: FILE rlcoreTargets.cmake DESTINATION "${package_dir}" COMPONENT dev)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/rlcoreConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cmake/rlcoreConfig.cmake" INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/rlcoreConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_BINARY_DIR}/cmake/rlcoreConfig.cmake" "${PROJECT_BINARY_DIR}/cmake/rlcoreConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/RlcoreComponents.cmake" "${PROJECT_SOURCE_DIR}/cmake/RlcoreArrow.cmake"
  DESTINATION "${package_dir}" COMPONENT dev)
# What rlcore::kernels, rlcore::devices, rlcore::mpi and rlcore::trainers are compiled from, in the project that links them.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/src" DESTINATION "${package_dir}" COMPONENT dev)

# Paths relative to the .pc file itself, so that the prefix may be moved.
file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/rlcore.pc.in" "${PROJECT_BINARY_DIR}/cmake/rlcore.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cmake/rlcore.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)
