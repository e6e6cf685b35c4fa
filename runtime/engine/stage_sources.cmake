target_sources(millrace_runtime PRIVATE
  engine/nan_search.cpp
  engine/optimizer_step.cpp
  engine/parameter_layout.cpp
  engine/parameter_store.cpp
  engine/rank_compute.cpp
  engine/rank_memory.cpp
  engine/stage.cpp
  engine/straight_loop.cpp)
