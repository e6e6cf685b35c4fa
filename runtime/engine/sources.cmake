target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/wait.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rank_plan.cpp
  ${CMAKE_CURRENT_LIST_DIR}/rank_engine.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace.cpp
  ${CMAKE_CURRENT_LIST_DIR}/step_shares.cpp)
include(${CMAKE_CURRENT_LIST_DIR}/stage_sources.cmake)
