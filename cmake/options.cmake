# What every target of ours is compiled with.
add_library(millrace_options INTERFACE)
target_compile_features(millrace_options INTERFACE cxx_std_20)
target_include_directories(millrace_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(millrace_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Release keeps our checks: they throw, they are not asserts.
# Most code runs once a run or a few times a step: it is built quickly. millrace_hot names what is built to be quick.
# Without lines for a debugger, which take a sixth of the time to build: the dev preset has them, and what sanitizers report names them.
set(CMAKE_CXX_FLAGS_RELEASE "-O1")
find_program(MILLRACE_CCACHE ccache)
if(MILLRACE_CCACHE)
  # ccache looks through precompiled headers only when it is told that their macros and times may be trusted.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${MILLRACE_CCACHE})
endif()
if(MILLRACE_SANITIZE)
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " -g1")
  target_compile_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE})
  if(MILLRACE_SANITIZE MATCHES thread)
    target_compile_options(millrace_options INTERFACE -Wno-tsan)  # the fences in Asio's headers, which order nothing of ours
  endif()
endif()

# millrace_hot(TARGET) or millrace_hot(SOURCES a.cpp …): what works on tensors, moves messages or simulates large tables. Not under sanitizers: their own code grows
# with inlining, and so does the time to build it.
function(millrace_hot)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  if(MILLRACE_SANITIZE)
    return()
  endif()
  foreach(target ${ARG_UNPARSED_ARGUMENTS})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endforeach()
  set_property(SOURCE ${ARG_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
  set_property(SOURCE ${ARG_SOURCES} PROPERTY SKIP_PRECOMPILE_HEADERS ON)  # GCC 12 may crash where a precompiled header was made with another -O
endfunction()
