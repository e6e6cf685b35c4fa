# The headers that all tests include, precompiled once, in an executable: its objects are position-independent in another way than a library's.
# Tests are compiled without optimisation: they check correctness, not speed, and it halves their share of a clean build.
if(MILLRACE_BUILD_TESTS)
  add_executable(test_headers EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp)
  target_link_libraries(test_headers PRIVATE millrace_options fmt::fmt GTest::gtest)
  target_compile_options(test_headers PRIVATE -O0)
  # The main() of every test, which also reports skipped cases.
  add_library(millrace_test_main STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/main.cpp ${PROJECT_SOURCE_DIR}/tests/support/skipped_cases.cpp)
  target_link_libraries(millrace_test_main PRIVATE millrace_options GTest::gtest)
  # CTest runs this after the tests: it lists the skipped cases with their reasons.
  file(WRITE ${PROJECT_BINARY_DIR}/CTestCustom.cmake
    "set(CTEST_CUSTOM_POST_TEST \"python3 ${PROJECT_SOURCE_DIR}/tests/support/skipped_cases.py ${PROJECT_BINARY_DIR}\")\n")
  millrace_precompile(test_headers <gtest/gtest.h> <chrono> <cmath> <fstream> <iterator> <limits> <sstream> <thread>)
  # The two paths that differ from clone to clone are compiled into this file alone, so that a compiler cache serves every clone.
  add_library(millrace_test_paths STATIC ${PROJECT_SOURCE_DIR}/tests/support/paths.cpp)
  target_link_libraries(millrace_test_paths PUBLIC millrace_options)
  target_compile_definitions(millrace_test_paths PRIVATE MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MILLRACE_BINARY_DIR="${PROJECT_BINARY_DIR}")
endif()

# millrace_compile_as_test(TARGET …): without optimisation, several sources at a time, with the precompiled headers of tests.
function(millrace_compile_as_test)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE -O0)
    millrace_reuse_precompiled(${target} test_headers)
  endforeach()
  millrace_join(${ARGN})
  # The local names of one test may be those of another's helpers.
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD_CODE_BEFORE_INCLUDE "#pragma GCC diagnostic ignored \"-Wshadow\"")
endfunction()

# millrace_add_test_library(NAME SOURCES … LIBRARIES …): code that several test programs share, compiled once. Only executables can link it.
function(millrace_add_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC millrace_options ${ARG_LIBRARIES} millrace_test_paths GTest::gtest)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
  millrace_compile_as_test(${name})
endfunction()

# millrace_add_test(NAME SOURCES a_test.cpp … LIBRARIES millrace_kernels … [RANKS n] [LABEL quick|full] [TIMEOUT seconds])
# One executable, one CTest entry. RANKS n > 1 starts it under mpirun with n processes and its own main(),
# which returns tests::run_all_tests(). A test that exits with 77 was skipped as a whole.
function(millrace_add_test name)
  cmake_parse_arguments(ARG "" "RANKS;LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL quick)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(MILLRACE_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE millrace_options ${ARG_LIBRARIES} millrace_test_paths millrace_test_main GTest::gtest)
  millrace_compile_as_test(${name})
  if(ARG_RANKS AND ARG_RANKS GREATER 1)
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none -np ${ARG_RANKS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

# The headers that most benchmarks include, precompiled once.
if(MILLRACE_BUILD_BENCHMARKS)
  add_executable(benchmark_headers EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp)
  target_link_libraries(benchmark_headers PRIVATE millrace_options fmt::fmt)
  millrace_precompile(benchmark_headers <chrono> <cmath> <thread>)
endif()

# millrace_add_benchmark(NAME SOURCES … LIBRARIES …): built, run by hand (benchmarks/README.md).
function(millrace_add_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE millrace_options ${ARG_LIBRARIES})
  millrace_reuse_precompiled(${name} benchmark_headers)
endfunction()
