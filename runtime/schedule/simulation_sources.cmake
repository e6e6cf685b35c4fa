target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/wiring.cpp
  ${CMAKE_CURRENT_LIST_DIR}/well_formed.cpp
  ${CMAKE_CURRENT_LIST_DIR}/wait_graph.cpp
  ${CMAKE_CURRENT_LIST_DIR}/full_table.cpp
  ${CMAKE_CURRENT_LIST_DIR}/transport.cpp
  ${CMAKE_CURRENT_LIST_DIR}/channel_state.cpp
  ${CMAKE_CURRENT_LIST_DIR}/transport_time.cpp
  ${CMAKE_CURRENT_LIST_DIR}/memory_peak.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cost.cpp
  ${CMAKE_CURRENT_LIST_DIR}/simulate.cpp
  ${CMAKE_CURRENT_LIST_DIR}/waits.cpp
  ${CMAKE_CURRENT_LIST_DIR}/slot_use.cpp
  ${CMAKE_CURRENT_LIST_DIR}/critical_path.cpp
  ${CMAKE_CURRENT_LIST_DIR}/slack.cpp
  ${CMAKE_CURRENT_LIST_DIR}/lost_time.cpp)
