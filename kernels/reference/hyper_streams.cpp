#include "kernels/hyper_streams.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// The sizes of a call, and its elements by token, stream and feature.
struct Sizes {
  std::int64_t tokens, width, k;
  Sizes(const Tensor& streams, const Tensor& one) : tokens(one.shape[0]), width(one.shape[1]), k(streams.shape[1] / one.shape[1]) {}
  [[nodiscard]] std::int64_t at(std::int64_t t, std::int64_t i, std::int64_t d) const { return (t * k + i) * width + d; }
  template <class Body>
  void each(Body body) const {
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t d = 0; d < width; ++d) body(t, d);
  }
};

/// Σ_d a[t, i, d] · b[t, m, d] of tensors with `ka` and `kb` streams.
double dot(const Sizes& sizes, const Tensor& a, std::int64_t ka, std::int64_t i, const Tensor& b, std::int64_t kb, std::int64_t m,
           std::int64_t t) {
  double sum = 0;
  for (std::int64_t d = 0; d < sizes.width; ++d)
    sum += static_cast<double>(load(a, (t * ka + i) * sizes.width + d)) * static_cast<double>(load(b, (t * kb + m) * sizes.width + d));
  return sum;
}

void expand_streams(const Tensor& x, const Tensor& streams) {
  const Sizes sizes(streams, x);
  sizes.each([&](std::int64_t t, std::int64_t d) {
    for (std::int64_t i = 0; i < sizes.k; ++i) store(streams, sizes.at(t, i, d), load(x, t * sizes.width + d));
  });
}

void reduce_streams(const Tensor& streams, const Tensor& y) {
  const Sizes sizes(streams, y);
  sizes.each([&](std::int64_t t, std::int64_t d) {
    double sum = 0;
    for (std::int64_t i = 0; i < sizes.k; ++i) sum += load(streams, sizes.at(t, i, d));
    store(y, t * sizes.width + d, static_cast<float>(sum));
  });
}

void collect_streams(const Tensor& streams, const Tensor& pre, const Tensor& y) {
  const Sizes sizes(streams, y);
  sizes.each([&](std::int64_t t, std::int64_t d) {
    double sum = 0;
    for (std::int64_t i = 0; i < sizes.k; ++i)
      sum += static_cast<double>(load(pre, t * sizes.k + i)) * static_cast<double>(load(streams, sizes.at(t, i, d)));
    store(y, t * sizes.width + d, static_cast<float>(sum));
  });
}

void collect_streams_gradient(const Tensor& dy, const Tensor& streams, const Tensor& pre, const Tensor& d_streams, const Tensor& d_pre) {
  const Sizes sizes(streams, dy);
  sizes.each([&](std::int64_t t, std::int64_t d) {
    for (std::int64_t i = 0; i < sizes.k; ++i)
      store(d_streams, sizes.at(t, i, d), load(pre, t * sizes.k + i) * load(dy, t * sizes.width + d));
  });
  for (std::int64_t t = 0; t < sizes.tokens; ++t)
    for (std::int64_t i = 0; i < sizes.k; ++i)
      store(d_pre, t * sizes.k + i, static_cast<float>(dot(sizes, streams, sizes.k, i, dy, 1, 0, t)));
}

void spread_streams(const Tensor& streams, const Tensor& v, const Tensor& post, const Tensor& map, const Tensor& y) {
  const Sizes sizes(streams, v);
  const std::int64_t k = sizes.k;
  sizes.each([&](std::int64_t t, std::int64_t d) {
    for (std::int64_t m = 0; m < k; ++m) {
      double sum = static_cast<double>(load(post, t * k + m)) * static_cast<double>(load(v, t * sizes.width + d));
      for (std::int64_t i = 0; i < k; ++i)
        sum += static_cast<double>(load(map, (t * k + i) * k + m)) * static_cast<double>(load(streams, sizes.at(t, i, d)));
      store(y, sizes.at(t, m, d), static_cast<float>(sum));
    }
  });
}

void spread_streams_gradient(const Tensor& dy, const Tensor& streams, const Tensor& v, const Tensor& post, const Tensor& map,
                             const Tensor& d_streams, const Tensor& dv, const Tensor& d_post, const Tensor& d_map) {
  const Sizes sizes(streams, v);
  const std::int64_t k = sizes.k;
  sizes.each([&](std::int64_t t, std::int64_t d) {
    double of_branch = 0;
    for (std::int64_t m = 0; m < k; ++m)
      of_branch += static_cast<double>(load(post, t * k + m)) * static_cast<double>(load(dy, sizes.at(t, m, d)));
    store(dv, t * sizes.width + d, static_cast<float>(of_branch));
    for (std::int64_t i = 0; i < k; ++i) {
      double sum = 0;
      for (std::int64_t m = 0; m < k; ++m)
        sum += static_cast<double>(load(map, (t * k + i) * k + m)) * static_cast<double>(load(dy, sizes.at(t, m, d)));
      store(d_streams, sizes.at(t, i, d), static_cast<float>(sum));
    }
  });
  for (std::int64_t t = 0; t < sizes.tokens; ++t) {
    for (std::int64_t m = 0; m < k; ++m) {
      store(d_post, t * k + m, static_cast<float>(dot(sizes, v, 1, 0, dy, k, m, t)));
      for (std::int64_t i = 0; i < k; ++i) store(d_map, (t * k + i) * k + m, static_cast<float>(dot(sizes, streams, k, i, dy, k, m, t)));
    }
  }
}

const InTable hyper_streams_in_table[] = {
    {Backend::reference, table::expand_streams, without_context<expand_streams>},
    {Backend::reference, table::reduce_streams, without_context<reduce_streams>},
    {Backend::reference, table::collect_streams, without_context<collect_streams>},
    {Backend::reference, table::collect_streams_gradient, without_context<collect_streams_gradient>},
    {Backend::reference, table::spread_streams, without_context<spread_streams>},
    {Backend::reference, table::spread_streams_gradient, without_context<spread_streams_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
