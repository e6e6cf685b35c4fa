# Library headers that most files of a room include, compiled once: saves about a third of a clean build.
# The dev preset builds without them, so that missing includes are found.
option(MILLRACE_PRECOMPILE "Compile common library headers once" ON)

set(MILLRACE_COMMON_HEADERS
  <fmt/format.h> <algorithm> <array> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional> <set> <span> <stdexcept> <string> <string_view> <utility>
  <variant> <vector>)

# millrace_precompile(TARGET [<header> …]): precompiles the common headers and these.
function(millrace_precompile target)
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${MILLRACE_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()

# millrace_reuse_precompiled(TARGET FROM): uses those of another target with the same options.
function(millrace_reuse_precompiled target from)
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# Small sources that include the same large headers are compiled several at a time (unity build), which halves the work of a clean build. Their unnamed
# namespaces must not define the same names. The dev preset compiles every source alone, so that
# one changed file costs one compilation. GCC treats a joined source like a header, and so warns about classes with members of unnamed types.
option(MILLRACE_JOIN "Compile small sources several at a time" ON)

# millrace_join(TARGET …): compiles the sources of these targets six at a time.
function(millrace_join)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ${MILLRACE_JOIN} UNITY_BUILD_BATCH_SIZE 6)
  if(MILLRACE_JOIN AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endforeach()
  endif()
endfunction()
