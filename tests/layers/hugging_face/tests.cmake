millrace_add_test(hugging_face_config_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/config_test.cpp ${CMAKE_CURRENT_LIST_DIR}/deepseek_test.cpp ${CMAKE_CURRENT_LIST_DIR}/experts_test.cpp
          ${CMAKE_CURRENT_LIST_DIR}/linear_attention_test.cpp ${CMAKE_CURRENT_LIST_DIR}/gemma4_test.cpp ${CMAKE_CURRENT_LIST_DIR}/llama4_test.cpp ${CMAKE_CURRENT_LIST_DIR}/values_test.cpp indexer_keys_test.cpp maxtext_config_test.cpp maxtext_linear_attention_test.cpp
  LIBRARIES millrace_layers nlohmann_json::nlohmann_json)
