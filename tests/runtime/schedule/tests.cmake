millrace_add_test(runtime_schedule_test LIBRARIES millrace_runtime SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/action_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/placement_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/schedule_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/global_order_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sum_tree_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/replicate_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/pictures_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/golden_vectors_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/auto_search_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/validate_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/weave_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/weave_pairs_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ledger_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/replay_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/render_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/table_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/hash_test.cpp)
