# Compile options of all our targets.
add_library(millrace_options INTERFACE)
target_compile_features(millrace_options INTERFACE cxx_std_20)
target_include_directories(millrace_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
# Programs that link an installed millrace choose their own warnings. Without contraction, because bits would depend on it.
target_compile_options(millrace_options INTERFACE $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra> $<BUILD_INTERFACE:-Wshadow>
  $<BUILD_INTERFACE:-Wno-missing-field-initializers> -fno-math-errno -ffp-contract=off)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Release keeps our checks: they throw, they are not asserts.
# Most code runs once per run or a few times per step, so it is compiled with little optimisation. millrace_hot marks the code that is optimised.
# Without debug information, which takes a sixth of the build time: the dev preset and the sanitizer presets have it.
set(CMAKE_CXX_FLAGS_RELEASE "-O1")
find_program(MILLRACE_CCACHE ccache)
if(MILLRACE_CCACHE)
  # ccache supports precompiled headers only with these sloppiness settings for their macros and times.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${MILLRACE_CCACHE})
endif()
if(MILLRACE_SANITIZE)
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " -g1")
  target_compile_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE})
  if(MILLRACE_SANITIZE MATCHES thread)
    target_compile_options(millrace_options INTERFACE -Wno-tsan)  # the fences in Asio's headers, on which none of our code relies
  endif()
endif()

# Code that works on tensors, moves messages or simulates large tables is hot. Not under sanitizers, whose instrumentation grows with inlining, and with it the
# build time.
# millrace_hot(TARGET): all sources of a target.
function(millrace_hot target)
  if(NOT MILLRACE_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
endfunction()

# millrace_hot_sources(TARGET a.cpp …): adds these sources to a target, compiled with its include folders and definitions. As an object library they can be
# joined (millrace_join), which sources with options of their own cannot.
function(millrace_hot_sources target)
  add_library(${target}_hot OBJECT ${ARGN})
  target_link_libraries(${target}_hot PRIVATE millrace_options)
  target_include_directories(${target}_hot PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_compile_definitions(${target}_hot PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  millrace_hot(${target}_hot)
  millrace_join(${target}_hot)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_hot>)
endfunction()
