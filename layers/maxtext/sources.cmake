target_sources(millrace_layers PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/config.cpp)
