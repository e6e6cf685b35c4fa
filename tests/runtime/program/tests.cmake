millrace_add_test(runtime_program_test LIBRARIES millrace_runtime SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/attributes_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/builder_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/choose_epilogues_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/differentiate_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/executor_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/expert_nets.cpp
  ${CMAKE_CURRENT_LIST_DIR}/expert_rows_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/memory_plan_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/merge_backward_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/offload_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ports_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/print_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rematerialize_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rig.cpp
  ${CMAKE_CURRENT_LIST_DIR}/route_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rules_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/small_net.cpp)
