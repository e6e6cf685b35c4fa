#pragma once

#include <dlfcn.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "kernels/base/tensor.hpp"
#include "kernels/matmul.hpp"

namespace millrace::benchmarks {

/// A direct call to oneDNN's matmul, with its own threads and its own scratch: c = op(a) op(b), or c += …. The tensors must not
/// move.
class PlainMatmul {
 public:
  PlainMatmul(const kernels::Tensor& a, const kernels::Tensor& b, const kernels::Tensor& c, kernels::MatmulOptions options)
      : engine_(dnnl::engine::kind::cpu, 0),
        context_(engine_),
        a_(description(a, options.transpose_a)),
        b_(description(b, options.transpose_b)),
        c_(description(c, false)),
        primitive_(make(options.accumulate)),
        arguments_{
            {DNNL_ARG_SRC, {a_, engine_, a.data}}, {DNNL_ARG_WEIGHTS, {b_, engine_, b.data}}, {DNNL_ARG_DST, {c_, engine_, c.data}}} {}
  void run() {
    primitive_.execute(context_, arguments_);
    context_.wait();
  }

 private:
  using Memory = dnnl::memory;

  static Memory::desc description(const kernels::Tensor& tensor, bool transposed) {
    const std::int64_t rows = tensor.shape[transposed ? 1 : 0], columns = tensor.shape[transposed ? 0 : 1];
    return {{rows, columns},
            tensor.dtype == kernels::DType::bf16 ? Memory::data_type::bf16 : Memory::data_type::f32,
            transposed ? Memory::format_tag::ba : Memory::format_tag::ab};
  }
  dnnl::matmul make(bool accumulate) {
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    return dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a_, b_, c_), attributes, engine_));
  }

  dnnl::engine engine_;
  dnnl::stream context_;
  Memory::desc a_, b_, c_;
  dnnl::matmul primitive_;
  std::unordered_map<int, Memory> arguments_;
};

/// Sets the number of threads of OpenMP code called from this thread, if OpenMP is linked.
inline void set_openmp_threads(int threads) {
  if (void* symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(symbol)(threads);
}

}  // namespace millrace::benchmarks
