#include "kernels/moments.hpp"

#include "kernels/cuda/router_losses.cuh"

namespace millrace::kernels::cuda {
namespace {

/// Which of the four sums a term belongs to.
enum class Moment { count, zeros, sum, squares };

/// A row's part of one sum.
template <class T, Moment moment>
struct RowTerm {
  const T* x;
  std::int64_t width;
  __device__ double operator()(std::int64_t row) const {
    double sum = 0;
    for (std::int64_t i = row * width + threadIdx.x % 32; i < (row + 1) * width; i += 32) {
      const double value = load(x + i);
      if (moment == Moment::count) sum += 1;
      if (moment == Moment::zeros) sum += value == 0 ? 1 : 0;
      if (moment == Moment::sum) sum += value;
      if (moment == Moment::squares) sum += value * value;
    }
    return warp_sum(sum);
  }
};

void moments(const ExecutionContext& context, const Tensor& x, const Tensor& sums) {
  with_type(x.dtype, [&]<class T>(T) {
    const auto add = [&]<Moment moment>() {
      sum_tokens(context, "kernels.moments", x.shape[0], RowTerm<T, moment>{x.as<T>(), x.shape[1]}, 1.0,
                 sums.as<double>() + static_cast<int>(moment));
    };
    add.template operator()<Moment::count>();
    add.template operator()<Moment::zeros>();
    add.template operator()<Moment::sum>();
    add.template operator()<Moment::squares>();
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::moments, moments},
};

}  // namespace
}  // namespace millrace::kernels::cuda
