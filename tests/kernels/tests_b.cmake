millrace_add_test(kernels_operations_test
  SOURCES attention_test.cpp embedding_test.cpp rms_norm_test.cpp rope_test.cpp statistics_test.cpp swiglu_test.cpp allocations.cpp
  LIBRARIES millrace_kernels
  LABEL quick)
