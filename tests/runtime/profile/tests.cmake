millrace_add_test(runtime_profile_test LIBRARIES millrace_runtime nlohmann_json::nlohmann_json SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/attribution_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/exchange_time_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/lateness_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/layout_cost_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/memory_use_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/profile_json_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_check_test.cpp)
