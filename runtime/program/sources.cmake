target_sources(millrace_runtime PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/attributes.cpp
  ${CMAKE_CURRENT_LIST_DIR}/builder.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/accumulate.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/add.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/attention.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/copy.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/embedding.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/linear_cross_entropy.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/matmul.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/rms_norm.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/rope.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/rules.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ops/swiglu.cpp
  ${CMAKE_CURRENT_LIST_DIR}/program.cpp)
