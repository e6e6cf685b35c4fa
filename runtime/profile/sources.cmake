target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/analyze.cpp
  ${CMAKE_CURRENT_LIST_DIR}/attribution.cpp
  ${CMAKE_CURRENT_LIST_DIR}/lateness.cpp
  ${CMAKE_CURRENT_LIST_DIR}/memory_use.cpp
  ${CMAKE_CURRENT_LIST_DIR}/prediction.cpp
  ${CMAKE_CURRENT_LIST_DIR}/profile_check.cpp
  ${CMAKE_CURRENT_LIST_DIR}/profile_json.cpp
  ${CMAKE_CURRENT_LIST_DIR}/step_view.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_check.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_json.cpp)
