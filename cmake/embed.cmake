# millrace_embed(TARGET HEADER runtime/profile/report/embedded_text.hpp NAMESPACE millrace::runtime FILES a.html b.js …): adds a generated source to the
# target that holds these files' texts in this order, as the function that the header declares in the namespace. The source is regenerated when one of
# them changes.
#
# The same file run as a script (cmake -P) writes that source: OUTPUT, HEADER, NAMESPACE and FILES, the latter separated by "|", since a list's own
# semicolons do not survive a command line.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "|" ";" FILES "${FILES}")
  set(source "#include \"${HEADER}\"\n\n#include <array>\n\nnamespace ${NAMESPACE} {\n\nstd::span<const EmbeddedText> embedded_texts() {\n  static constexpr std::array texts{\n")
  foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(APPEND source "EmbeddedText{\"${name}\", R\"millrace(${text})millrace\"},\n")
  endforeach()
  string(APPEND source "  };\n  return texts;\n}\n\n}  // namespace ${NAMESPACE}\n")
  file(WRITE ${OUTPUT} "${source}")
  return()
endif()

set(MILLRACE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(millrace_embed target)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${target}_texts.cpp)
  list(TRANSFORM ARG_FILES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(JOIN ARG_FILES "|" files)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} -D HEADER=${ARG_HEADER} -D NAMESPACE=${ARG_NAMESPACE} "-DFILES=${files}" -P ${MILLRACE_EMBED_SCRIPT}
    DEPENDS ${ARG_FILES} ${MILLRACE_EMBED_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
