# What `cmake --install` puts where, below the prefix: the program with its presets, documents and completions (component `program`), and what programs that
# link millrace need (component `development`).
include(CMakePackageConfigHelpers)

# -- the program
install(TARGETS millrace RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY configs/models configs/runs DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace/configs COMPONENT program FILES_MATCHING PATTERN "*.toml")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program RENAME copyright)  # the name that Debian's policy gives it
file(RELATIVE_PATH millrace_configs /prefix/${CMAKE_INSTALL_DOCDIR} /prefix/${CMAKE_INSTALL_DATADIR}/millrace/configs)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" -D \"SOURCE=${PROJECT_SOURCE_DIR}\" -D \"OUT=${PROJECT_BINARY_DIR}/installed_documents\"
    -D \"CONFIGS=${millrace_configs}\" -P \"${PROJECT_SOURCE_DIR}/cmake/install_documents.cmake\" RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR \"cmake/install_documents.cmake ended with \${failed}, expected documents whose links work where they are installed\")
  endif()" COMPONENT program)
install(DIRECTORY ${PROJECT_BINARY_DIR}/installed_documents/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program FILES_MATCHING PATTERN "*.cpp" PATTERN "*.hpp" PATTERN "*.toml" PATTERN "outside/CMakeLists.txt")
# The scripts and the manual page are written by the program itself.
install(CODE "
  foreach(shell bash zsh man)
    execute_process(COMMAND \"$<TARGET_FILE:millrace>\" completion \${shell} OUTPUT_FILE \"${PROJECT_BINARY_DIR}/completion.\${shell}\" RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR \"$<TARGET_FILE:millrace> completion \${shell} ended with \${failed}, expected the script that completes its words\")
    endif()
  endforeach()" COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/completion.man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME millrace.1 COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME millrace COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _millrace COMPONENT program)

# -- for programs that link millrace (examples/outside)
if(MILLRACE_CUDA STREQUAL "emulated")
  return()  # its headers are those of tests
endif()
add_library(millrace_all INTERFACE)
target_link_libraries(millrace_all INTERFACE millrace_tools)
set(millrace_targets millrace_options millrace_all_kernels millrace_all)
if(TARGET millrace_cuda)
  list(APPEND millrace_targets millrace_cuda)
endif()
foreach(room kernels runtime report layers cluster actors configs tools)
  list(APPEND millrace_targets millrace_${room})
endforeach()
foreach(target ${millrace_targets})
  string(REPLACE "millrace_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(millrace_all PROPERTIES EXPORT_NAME millrace)
set(millrace_package ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
install(TARGETS ${millrace_targets} EXPORT millrace ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/millrace COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace)
install(EXPORT millrace NAMESPACE millrace:: FILE millrace-targets.cmake DESTINATION ${millrace_package} COMPONENT development)
configure_package_config_file(cmake/millrace-config.cmake.in ${PROJECT_BINARY_DIR}/millrace-config.cmake INSTALL_DESTINATION ${millrace_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millrace-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/millrace-config.cmake ${PROJECT_BINARY_DIR}/millrace-config-version.cmake cmake/libraries.cmake
  DESTINATION ${millrace_package} COMPONENT development)
# All headers, under the paths by which sources include them.
file(GLOB_RECURSE millrace_headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  kernels/*.hpp runtime/*.hpp layers/*.hpp cluster/*.hpp actors/*.hpp configs/*.hpp tools/commands/*.hpp kernels/*.inc runtime/*.inc layers/*.inc)
foreach(header ${millrace_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace/${folder} COMPONENT development)
endforeach()
