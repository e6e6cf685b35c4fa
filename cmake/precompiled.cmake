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
