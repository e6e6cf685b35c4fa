millrace_add_test(runtime_io_test
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/checkpoint_cache_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/checkpoint_crash_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/checkpoint_damage_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/checkpoint_file_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/checkpoint_power_loss_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/event_file_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/file_dtype_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/file_system_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/hash_recording_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/hash_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/metrics_file_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/power_loss.cpp
    ${CMAKE_CURRENT_LIST_DIR}/run_journal_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/safetensors_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/tensor_folder_test.cpp
  LIBRARIES millrace_runtime)
