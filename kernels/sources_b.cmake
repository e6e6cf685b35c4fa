# Embedding, norms, rotary, attention, SwiGLU.
target_sources(millrace_kernels PRIVATE
  attention.cpp
  embedding.cpp
  rms_norm.cpp
  rope.cpp
  statistics.cpp
  swiglu.cpp
  cpu/attention.cpp
  reference/attention.cpp
  reference/embedding.cpp
  reference/rms_norm.cpp
  reference/rope.cpp
  reference/swiglu.cpp)

millrace_cpu_kernel(cpu/attention_backward_loops.cpp)
millrace_cpu_kernel(cpu/attention_forward_loops.cpp)
millrace_cpu_kernel(cpu/embedding_loops.cpp)
millrace_cpu_kernel(cpu/rms_norm_loops.cpp)
millrace_cpu_kernel(cpu/rope_loops.cpp)
millrace_cpu_kernel(cpu/swiglu_loops.cpp)
