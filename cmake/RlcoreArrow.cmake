# rlcore_find_arrow(): defines rlcore::parquet when Arrow and Parquet for C++ are found. Debian 12 packages neither,
# but every pyarrow wheel carries their headers and shared libraries. Looked at in this order:
#   1. an installed Arrow C++ (its own CMake package),
#   2. the folder in RLCORE_PYARROW, a CMake variable or an environment variable,
#   3. when rlcore_pyarrow_search is on: the pyarrow of build/venv, then of the python3 in PATH.
include_guard(DIRECTORY)

function(rlcore_pyarrow_folder python folder)
  set(${folder} "" PARENT_SCOPE)
  execute_process(
    COMMAND "${python}" -c
      "import importlib.util as u; s = u.find_spec('pyarrow'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0 AND found)
    set(${folder} "${found}" PARENT_SCOPE)
  endif()
endfunction()

# Links and compiles one call: a wheel built with another C++ ABI must count as not found, not break the build.
function(rlcore_check_pyarrow folder arrow parquet works)
  set(result_variable "RLCORE_PYARROW_WORKS_${arrow}")
  string(MAKE_C_IDENTIFIER "${result_variable}" result_variable)
  if(NOT DEFINED ${result_variable})
    set(source "${CMAKE_BINARY_DIR}/CMakeFiles/rlcore_pyarrow_check.cpp")
    file(WRITE "${source}" [[
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
int main() {
  auto opened = arrow::io::ReadableFile::Open(std::string("/dev/null"));
  return parquet::arrow::FileReaderBuilder().Open(opened.ValueOrDie()).ToString().empty() ? 1 : 0;
}
]])
    try_compile(compiled "${CMAKE_BINARY_DIR}/CMakeFiles/rlcore_pyarrow_check" SOURCES "${source}"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${folder}/include"
      LINK_LIBRARIES "${parquet}" "${arrow}" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
    set(${result_variable} "${compiled}" CACHE INTERNAL "A program links with this wheel's Arrow")
  endif()
  set(${works} "${${result_variable}}" PARENT_SCOPE)
endfunction()

function(rlcore_use_pyarrow folder)
  file(GLOB arrow "${folder}/libarrow.so.*")
  file(GLOB parquet "${folder}/libparquet.so.*")
  if(NOT arrow OR NOT parquet OR NOT EXISTS "${folder}/include/parquet/arrow/reader.h")
    message(NOTICE "rlcore: ${folder} has no Arrow C++ in it: no Parquet")
    return()
  endif()
  list(GET arrow 0 arrow)
  list(GET parquet 0 parquet)
  rlcore_check_pyarrow("${folder}" "${arrow}" "${parquet}" works)
  if(NOT works)
    message(NOTICE "rlcore: a program does not link with the Arrow in ${folder}: no Parquet")
    return()
  endif()
  add_library(rlcore::parquet INTERFACE IMPORTED ${rlcore_component_scope})
  target_include_directories(rlcore::parquet SYSTEM INTERFACE "${folder}/include")
  # By full path: the linker takes the exact file, and CMake writes its folder into the program's run path.
  target_link_libraries(rlcore::parquet INTERFACE "${parquet}" "${arrow}")
  target_compile_definitions(rlcore::parquet INTERFACE RLCORE_HAS_PARQUET=1)
  if(NOT rlcore_pyarrow_said STREQUAL folder)
    message(NOTICE "rlcore: Parquet through the Arrow in ${folder}")
    set(rlcore_pyarrow_said "${folder}" CACHE INTERNAL "")
  endif()
endfunction()

function(rlcore_find_arrow)
  if(TARGET rlcore::parquet OR (DEFINED RLCORE_PARQUET AND NOT RLCORE_PARQUET))
    return()
  endif()
  find_package(Parquet QUIET CONFIG)
  if(Parquet_FOUND)
    foreach(kind IN ITEMS shared static)
      if(TARGET Parquet::parquet_${kind} AND TARGET Arrow::arrow_${kind})
        add_library(rlcore::parquet INTERFACE IMPORTED ${rlcore_component_scope})
        target_link_libraries(rlcore::parquet INTERFACE Parquet::parquet_${kind} Arrow::arrow_${kind})
        target_compile_definitions(rlcore::parquet INTERFACE RLCORE_HAS_PARQUET=1)
        return()
      endif()
    endforeach()
  endif()
  set(folder "${RLCORE_PYARROW}")
  if(NOT folder)
    set(folder "$ENV{RLCORE_PYARROW}")
  endif()
  if(NOT folder AND rlcore_pyarrow_search)
    foreach(python IN ITEMS "${CMAKE_BINARY_DIR}/venv/bin/python3" python3)
      rlcore_pyarrow_folder("${python}" folder)
      if(folder)
        break()
      endif()
    endforeach()
  endif()
  if(folder)
    rlcore_use_pyarrow("${folder}")
  endif()
endfunction()
