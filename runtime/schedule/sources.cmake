target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/action.cpp
  ${CMAKE_CURRENT_LIST_DIR}/placement.cpp
  ${CMAKE_CURRENT_LIST_DIR}/edge.cpp
  ${CMAKE_CURRENT_LIST_DIR}/schedule.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gpipe.cpp
  ${CMAKE_CURRENT_LIST_DIR}/one_f_one_b.cpp
  ${CMAKE_CURRENT_LIST_DIR}/looped_bfs.cpp
  ${CMAKE_CURRENT_LIST_DIR}/zb_h1.cpp
  ${CMAKE_CURRENT_LIST_DIR}/forward_only.cpp
  ${CMAKE_CURRENT_LIST_DIR}/causality.cpp
  ${CMAKE_CURRENT_LIST_DIR}/validate.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ledger.cpp
  ${CMAKE_CURRENT_LIST_DIR}/replay.cpp
  ${CMAKE_CURRENT_LIST_DIR}/render.cpp
  ${CMAKE_CURRENT_LIST_DIR}/table.cpp
  ${CMAKE_CURRENT_LIST_DIR}/hash.cpp)
