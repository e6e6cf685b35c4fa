millrace_add_test(runtime_optimizers_test LIBRARIES millrace_runtime SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/decay_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/learning_rate_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/matrix_rule_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/optimizer_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/parameter_groups_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/spike_detector_test.cpp)
