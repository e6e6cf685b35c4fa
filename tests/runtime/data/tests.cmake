millrace_add_test(runtime_data_test
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/../batch_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/batch_ramp_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/batch_source_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/blend_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/choice_file_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/content_hash_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/dataset_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/mapped_file_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/megatron_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/permutation_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/run_files_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/text_files_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/token_file_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/token_writer_power_loss_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/../io/power_loss.cpp
  LIBRARIES millrace_runtime)
