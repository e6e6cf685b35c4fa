millrace_add_test(runtime_simulation_test LIBRARIES millrace_runtime SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/transfer_order_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/transfer_time_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/simulate_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/segment_simulation_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/transfer_lane_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/layer_assignment_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/critical_path_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/slot_use_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/lost_time_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gradient_reduction_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/goodput_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/extrapolate_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/memory_peak_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/svg_picture_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_events_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/report_test.cpp)

millrace_add_test(runtime_member_lists_test LIBRARIES millrace_runtime SOURCES ${CMAKE_CURRENT_LIST_DIR}/member_lists_test.cpp)
millrace_add_test(runtime_member_lists_full_test LIBRARIES millrace_runtime LABEL full TIMEOUT 600 SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/member_lists_test.cpp)
target_compile_definitions(runtime_member_lists_test PRIVATE MEMBER_TRIALS=2000)
target_compile_definitions(runtime_member_lists_full_test PRIVATE MEMBER_TRIALS=100000)
