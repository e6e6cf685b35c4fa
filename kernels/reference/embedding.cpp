#include "kernels/embedding.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void embedding_forward(const Tensor& tokens, const Tensor& table, const Tensor& y) {
  const std::int64_t width = table.shape[1];
  for (std::int64_t t = 0; t < tokens.elements(); ++t)
    for (std::int64_t d = 0; d < width; ++d) store(y, t * width + d, load(table, tokens.as<std::int32_t>()[t] * width + d));
}

void embedding_weight_gradient(const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  const std::int64_t width = dy.shape[1];
  for (std::int64_t t = 0; t < tokens.elements(); ++t)
    for (std::int64_t d = 0; d < width; ++d) gradient.as<float>()[tokens.as<std::int32_t>()[t] * width + d] += load(dy, t * width + d);
}

const InTable embedding_in_table[] = {
    {Backend::reference, table::embedding_forward, without_context<embedding_forward>},
    {Backend::reference, table::embedding_weight_gradient, without_context<embedding_weight_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
