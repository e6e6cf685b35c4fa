millrace_add_test(runtime_template_test
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/chat_template_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/template_test.cpp
  LIBRARIES millrace_runtime nlohmann_json::nlohmann_json)
