millrace_add_test(runtime_tokenize_test
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/compress_vocabulary_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/reference_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/sentence_piece_model_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/splitter_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/tokenize_files_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/tokenizer_test.cpp
    ${PROJECT_SOURCE_DIR}/tests/support/mixed_text.cpp
  LIBRARIES millrace_runtime)
