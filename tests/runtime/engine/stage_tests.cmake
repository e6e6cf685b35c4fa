millrace_add_test(runtime_stage_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/stage_test.cpp ${CMAKE_CURRENT_LIST_DIR}/rank_memory_test.cpp ${CMAKE_CURRENT_LIST_DIR}/shard_layout_test.cpp
          ${CMAKE_CURRENT_LIST_DIR}/ownership_test.cpp ${CMAKE_CURRENT_LIST_DIR}/reduction_test.cpp
          ${CMAKE_CURRENT_LIST_DIR}/made_up_device.cpp ${CMAKE_CURRENT_LIST_DIR}/made_up_device_test.cpp
  LIBRARIES millrace_model_fixture)
