target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/checkpoint_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/checkpoint_reader.cpp
  ${CMAKE_CURRENT_LIST_DIR}/checkpoint_records.cpp
  ${CMAKE_CURRENT_LIST_DIR}/crc32c.cpp
  ${CMAKE_CURRENT_LIST_DIR}/event_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/fault.cpp
  ${CMAKE_CURRENT_LIST_DIR}/file_dtype.cpp
  ${CMAKE_CURRENT_LIST_DIR}/file_system.cpp
  ${CMAKE_CURRENT_LIST_DIR}/hash.cpp
  ${CMAKE_CURRENT_LIST_DIR}/hash_recorder.cpp
  ${CMAKE_CURRENT_LIST_DIR}/hash_recording.cpp
  ${CMAKE_CURRENT_LIST_DIR}/metrics_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/run_journal.cpp
  ${CMAKE_CURRENT_LIST_DIR}/safetensors_header.cpp
  ${CMAKE_CURRENT_LIST_DIR}/safetensors.cpp
  ${CMAKE_CURRENT_LIST_DIR}/strict_json.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tensor_folder.cpp)
target_link_libraries(millrace_runtime PRIVATE nlohmann_json::nlohmann_json)
