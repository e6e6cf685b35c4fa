# Library headers that most files of a room read, compiled once instead of in each: about a third of a clean build.
# The dev preset builds without them, so that a file which forgot an include is found.
option(MILLRACE_PRECOMPILE "Compile common library headers once" ON)

set(MILLRACE_COMMON_HEADERS
  <fmt/format.h> <algorithm> <array> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional> <set> <span> <stdexcept> <string> <string_view> <utility>
  <variant> <vector>)

# millrace_precompile(TARGET [<header> …]): the common headers and these.
function(millrace_precompile target)
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${MILLRACE_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()

# millrace_reuse_precompiled(TARGET FROM): those of another target with the same options.
function(millrace_reuse_precompiled target from)
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# Small sources that read the same large headers, compiled several at a time: half of a clean build's work. What they define in unnamed namespaces has to differ.
# Hot sources have options of their own and stay alone. The dev preset compiles each alone, so that one changed file costs one file.
# GCC takes a joined source for a header, where a class with members of unnamed types would be a mistake.
option(MILLRACE_JOIN "Compile small sources several at a time" ON)

# millrace_join(TARGET …): the sources of these targets, six at a time.
function(millrace_join)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ${MILLRACE_JOIN} UNITY_BUILD_BATCH_SIZE 6)
  if(MILLRACE_JOIN AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endforeach()
  endif()
endfunction()
