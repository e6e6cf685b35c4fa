# The kernels of GPUs, compiled by nvcc, or for the emulation by the C++ compiler. An operation has its file here, cuda/<operation>.cu or .cpp, if it has kernels.
if(NOT MILLRACE_CUDA)
  return()
endif()

set(millrace_cuda_kernels
  cuda/attention_backward.cu
  cuda/attention_backward_hopper.cu
  cuda/attention_key_gradients_hopper.cu
  cuda/attention_query_gradients_hopper.cu
  cuda/attention_forward.cu
  cuda/attention_of_blocks.cu
  cuda/breadcrumb.cu
  cuda/grouped_matmul_hopper.cu
  cuda/hopper_device.cu
  cuda/plain_product.cu)
set(millrace_cuda_sources
  cuda/devices.cpp
  cuda/graph.cpp
  cuda/event.cpp
  cuda/memory.cpp
  cuda/gemm_autotune_cache.cpp
  cuda/gemm_plans.cpp
  cuda/device_context.cpp
  cuda/range.cpp)
foreach(operation ${millrace_operations})
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/${operation}.cu)
    list(APPEND millrace_cuda_kernels cuda/${operation}.cu)
  elseif(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/${operation}.cpp)
    list(APPEND millrace_cuda_sources cuda/${operation}.cpp)
  endif()
endforeach()

add_library(millrace_kernels_cuda OBJECT ${millrace_cuda_kernels} ${millrace_cuda_sources})
target_link_libraries(millrace_kernels_cuda PUBLIC millrace_cuda PRIVATE fmt::fmt)
target_include_directories(millrace_kernels_cuda PRIVATE ${PROJECT_SOURCE_DIR})
if(MILLRACE_CUDA STREQUAL "emulated")
  set_source_files_properties(${millrace_cuda_kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;-Wno-unknown-pragmas")
  target_link_libraries(millrace_kernels_cuda PRIVATE millrace_options)
  target_compile_options(millrace_kernels_cuda PRIVATE -O2)
  foreach(part cublaslt device fibers graphs launch memory streams)
    target_sources(millrace_kernels_cuda PRIVATE ${PROJECT_SOURCE_DIR}/tests/emulated_cuda/${part}.cpp)
  endforeach()
else()
  target_sources(millrace_kernels_cuda PRIVATE cuda/fused_attention.cpp)
  # An update has the CPU's bits: no product is added without its rounding. Memory is what it waits for.
  foreach(kernel ${millrace_cuda_kernels})
    file(STRINGS ${kernel} updates REGEX "kernels/cuda/update.cuh|kernels/(average|muon).hpp")
    if(updates)
      set_source_files_properties(${kernel} PROPERTIES COMPILE_OPTIONS --fmad=false)
    endif()
  endforeach()
  set_target_properties(millrace_kernels_cuda PROPERTIES CXX_STANDARD 20)
  # Without this definition nvcc treats fmt 9's format checks as host functions that cannot be constant.
  target_compile_definitions(millrace_kernels_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  target_compile_options(millrace_kernels_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -lineinfo -diag-suppress=20012>)
endif()
target_sources(millrace_all_kernels PRIVATE $<TARGET_OBJECTS:millrace_kernels_cuda>)
target_link_libraries(millrace_all_kernels PUBLIC $<$<NOT:$<STREQUAL:${MILLRACE_CUDA},emulated>>:millrace_cuda>)
