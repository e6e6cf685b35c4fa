target_sources(millrace_layers PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/config.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gpt2_config.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rope.cpp
  ${CMAKE_CURRENT_LIST_DIR}/unsupported.cpp)
target_link_libraries(millrace_layers PRIVATE nlohmann_json::nlohmann_json)
