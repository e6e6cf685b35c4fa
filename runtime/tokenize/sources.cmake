target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/added_tokens.cpp
  ${CMAKE_CURRENT_LIST_DIR}/byte_pair_tokenizer.cpp
  ${CMAKE_CURRENT_LIST_DIR}/byte_pairs.cpp
  ${CMAKE_CURRENT_LIST_DIR}/json_view.cpp
  ${CMAKE_CURRENT_LIST_DIR}/known_splitters.cpp
  ${CMAKE_CURRENT_LIST_DIR}/open_tokenizer.cpp
  ${CMAKE_CURRENT_LIST_DIR}/pattern_splitter.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sentence_piece.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sentence_piece_model.cpp
  ${CMAKE_CURRENT_LIST_DIR}/text_cut.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tiktoken.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tokenize_files.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tokenizer_json.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tokenizer_json_steps.cpp
  ${CMAKE_CURRENT_LIST_DIR}/unicode.cpp
  ${CMAKE_CURRENT_LIST_DIR}/utf8.cpp)
millrace_hot(SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/byte_pair_tokenizer.cpp
  ${CMAKE_CURRENT_LIST_DIR}/byte_pairs.cpp
  ${CMAKE_CURRENT_LIST_DIR}/known_splitters.cpp
  ${CMAKE_CURRENT_LIST_DIR}/utf8.cpp)
target_link_libraries(millrace_runtime PRIVATE PCRE2::pcre2 utf8proc::utf8proc sentencepiece::sentencepiece)
