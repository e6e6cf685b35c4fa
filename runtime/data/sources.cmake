target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/batch_source.cpp
  ${CMAKE_CURRENT_LIST_DIR}/choice_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/content_hash.cpp
  ${CMAKE_CURRENT_LIST_DIR}/dataset.cpp
  ${CMAKE_CURRENT_LIST_DIR}/last_part.cpp
  ${CMAKE_CURRENT_LIST_DIR}/mapped_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/megatron_index.cpp
  ${CMAKE_CURRENT_LIST_DIR}/text_files.cpp
  ${CMAKE_CURRENT_LIST_DIR}/token_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/token_stream.cpp
  ${CMAKE_CURRENT_LIST_DIR}/token_writer.cpp)
