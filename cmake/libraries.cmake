# Libraries without a CMake package of their own, as imported targets. Both the build and an installed millrace-config.cmake include this file.

# millrace_import(NAME::target LIBRARY "as people call it" PACKAGE libname-dev HEADER name/header.h BINARY name)
# The paths found are MILLRACE_NAME_INCLUDE and MILLRACE_NAME in the cache. What is missing is appended to millrace_missing_libraries, as "LIBRARY (PACKAGE)".
function(millrace_import target)
  cmake_parse_arguments(ARG "" "LIBRARY;PACKAGE;HEADER;BINARY" "" ${ARGN})
  if(TARGET ${target})
    return()
  endif()
  string(REGEX REPLACE "::.*" "" name MILLRACE_${target})
  string(TOUPPER ${name} name)
  find_path(${name}_INCLUDE ${ARG_HEADER})
  find_library(${name} ${ARG_BINARY})
  if(NOT ${name}_INCLUDE OR NOT ${name})
    set(millrace_missing_libraries ${millrace_missing_libraries} "${ARG_LIBRARY} (${ARG_PACKAGE})" PARENT_SCOPE)
    return()
  endif()
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${name}} INTERFACE_INCLUDE_DIRECTORIES ${${name}_INCLUDE})
endfunction()

set(millrace_missing_libraries "")
# libdnnl-dev's own CMake package requires OpenCL's headers, which nothing here includes.
millrace_import(DNNL::dnnl LIBRARY oneDNN PACKAGE libdnnl-dev HEADER oneapi/dnnl/dnnl.hpp BINARY dnnl)
millrace_import(CAF::core LIBRARY CAF PACKAGE libcaf-dev HEADER caf/all.hpp BINARY caf_core)
millrace_import(PCRE2::pcre2 LIBRARY PCRE2 PACKAGE libpcre2-dev HEADER pcre2.h BINARY pcre2-8)
millrace_import(utf8proc::utf8proc LIBRARY utf8proc PACKAGE libutf8proc-dev HEADER utf8proc.h BINARY utf8proc)
millrace_import(sentencepiece::sentencepiece LIBRARY SentencePiece PACKAGE libsentencepiece-dev HEADER sentencepiece_processor.h BINARY sentencepiece)
millrace_import(libedit::libedit LIBRARY libedit PACKAGE libedit-dev HEADER editline/readline.h BINARY edit)
