# millrace_commit(TARGET FUNCTION millrace::tools::source_commit): adds a generated source to the target that defines this function, which returns the
# commit that the sources are of. Each build looks again, and compiles the source only if the answer has changed.
#
# The same file run as a script (cmake -P) writes that source: SOURCES, OUTPUT, SCOPE and NAME.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)  # sources without their repository, or no git
  find_program(git git)
  if(git)
    # The folder of the sources may belong to another user than the one who builds.
    execute_process(COMMAND ${git} -c safe.directory=${SOURCES} -C ${SOURCES} rev-parse --show-toplevel --short=12 HEAD
      OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REPLACE "\n" ";" found "${found}")
    list(LENGTH found lines)
    set(folder "")
    if(NOT failed AND lines EQUAL 2)
      list(GET found 0 folder)
    endif()
    if(folder STREQUAL SOURCES)
      list(GET found 1 commit)
      execute_process(COMMAND ${git} -c safe.directory=${SOURCES} -C ${SOURCES} diff-index --quiet HEAD RESULT_VARIABLE changed ERROR_QUIET)
      if(changed)
        string(APPEND commit "-dirty")
      endif()
    endif()
  endif()
  set(source "#include <string_view>\n\nnamespace ${SCOPE} {\n\nstd::string_view ${NAME}() { return \"${commit}\"; }\n\n}  // namespace ${SCOPE}\n")
  set(written "")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} written)
  endif()
  if(NOT written STREQUAL source)
    file(WRITE ${OUTPUT} "${source}")
  endif()
  return()
endif()

set(MILLRACE_COMMIT_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(millrace_commit target)
  cmake_parse_arguments(ARG "" "FUNCTION" "" ${ARGN})
  string(REGEX MATCH "(.*)::([a-z_]+)$" matched ${ARG_FUNCTION})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${target}_commit.cpp)
  add_custom_target(${target}_commit BYPRODUCTS ${output}
    COMMAND ${CMAKE_COMMAND} -D SOURCES=${PROJECT_SOURCE_DIR} -D OUTPUT=${output} -D SCOPE=${CMAKE_MATCH_1} -D NAME=${CMAKE_MATCH_2} -P ${MILLRACE_COMMIT_SCRIPT}
    COMMENT "" VERBATIM)
  set_source_files_properties(${output} PROPERTIES GENERATED ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${output})
  add_dependencies(${target} ${target}_commit)
endfunction()
