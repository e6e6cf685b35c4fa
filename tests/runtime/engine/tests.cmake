millrace_add_test(runtime_engine_test LIBRARIES millrace_runtime SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/expert_load_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/graph_cache_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/nan_search_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rank_plan_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rank_engine_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rank_engine_pump_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/residence_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/qk_clip_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/step_breakdown_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/step_loss_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/update_rule_test.cpp)
include(${CMAKE_CURRENT_LIST_DIR}/stage_tests.cmake OPTIONAL)
