#include "kernels/linear_cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double shaped(double logit, CrossEntropyOptions options) {
  logit *= options.scale;
  return options.soft_cap > 0 ? options.soft_cap * std::tanh(logit / options.soft_cap) : logit;
}
/// Derivative of the shaped logit with respect to the plain one, from the shaped one.
double slope(double logit, CrossEntropyOptions options) {
  const double share = options.soft_cap > 0 ? logit / options.soft_cap : 0;
  return options.scale * (1 - share * share);
}

double table(const Tensor& w, std::int64_t index, CrossEntropyOptions options) {
  const float value = load(w, index);
  return options.round_table ? to_float(to_bfloat16(value)) : value;
}

void row_of_logits(const Tensor& h, const Tensor& w, std::int64_t token, CrossEntropyOptions options, std::vector<double>& logits) {
  const std::int64_t width = h.shape[1];
  for (std::size_t entry = 0; entry < logits.size(); ++entry) {
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i)
      sum += static_cast<double>(load(h, token * width + i)) * table(w, static_cast<std::int64_t>(entry) * width + i, options);
    logits[entry] = shaped(sum, options);
  }
}

void linear_logits(const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits, Scratch /*scratch*/) {
  std::vector<double> row(static_cast<std::size_t>(w.shape[0]));
  for (std::int64_t token = 0; token < h.shape[0]; ++token) {
    row_of_logits(h, w, token, options, row);
    std::transform(row.begin(), row.end(), logits.as<float>() + token * w.shape[0], [](double logit) { return static_cast<float>(logit); });
  }
}

void linear_argmax(const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& entries, Scratch /*scratch*/) {
  std::vector<double> row(static_cast<std::size_t>(w.shape[0]));
  for (std::int64_t token = 0; token < h.shape[0]; ++token) {
    row_of_logits(h, w, token, options, row);
    entries.as<std::int32_t>()[token] = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }
}

void linear_cross_entropy_forward(const Tensor& h, const Tensor& w, const Tensor& targets, CrossEntropyOptions options, const Tensor& loss,
                                  const Tensor& log_sum_exp, Scratch /*scratch*/) {
  std::vector<double> logits(static_cast<std::size_t>(w.shape[0]));
  double total = 0, z_total = 0;
  for (std::int64_t token = 0; token < h.shape[0]; ++token) {
    row_of_logits(h, w, token, options, logits);
    const double maximum = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - maximum);
    const double lse = maximum + std::log(sum);
    log_sum_exp.as<float>()[token] = static_cast<float>(lse);
    const std::int32_t target = targets.as<std::int32_t>()[token];
    if (target < 0) continue;
    const double z = static_cast<double>(options.z_loss) * lse * lse;
    total += lse - logits[static_cast<std::size_t>(target)] + z;
    z_total += z;
  }
  loss.as<double>()[0] = total;
  loss.as<double>()[1] = z_total;
}

/// Either gradient may be null.
void add_gradients(const Tensor& h, const Tensor& w, const Tensor& targets, const Tensor& log_sum_exp, const Tensor& g,
                   CrossEntropyOptions options, const Tensor* dh, const Tensor* dw) {
  const std::int64_t width = h.shape[1];
  const double scale = g.as<float>()[0];
  std::vector<double> dl(static_cast<std::size_t>(w.shape[0])), row(static_cast<std::size_t>(width));
  std::vector<float> unrounded(dw != nullptr && options.round_table ? static_cast<std::size_t>(dw->elements()) : 0);
  float* const sums = dw == nullptr ? nullptr : options.round_table ? unrounded.data() : dw->as<float>();
  for (std::int64_t token = 0; token < h.shape[0]; ++token) {
    const std::int32_t target = targets.as<std::int32_t>()[token];
    std::fill(row.begin(), row.end(), 0.0);
    if (target >= 0) {
      row_of_logits(h, w, token, options, dl);
      const double lse = log_sum_exp.as<float>()[token];
      for (std::size_t entry = 0; entry < dl.size(); ++entry) {
        const double onehot = entry == static_cast<std::size_t>(target) ? 1 : 0;
        dl[entry] =
            scale * ((1 + 2 * static_cast<double>(options.z_loss) * lse) * std::exp(dl[entry] - lse) - onehot) * slope(dl[entry], options);
      }
      for (std::int64_t entry = 0; entry < w.shape[0]; ++entry)
        for (std::int64_t i = 0; i < width; ++i) {
          const double d = dl[static_cast<std::size_t>(entry)];
          row[static_cast<std::size_t>(i)] += d * table(w, entry * width + i, options);
          if (sums != nullptr) sums[entry * width + i] += static_cast<float>(d * static_cast<double>(load(h, token * width + i)));
        }
    }
    if (dh != nullptr)
      for (std::int64_t i = 0; i < width; ++i) store(*dh, token * width + i, static_cast<float>(row[static_cast<std::size_t>(i)]));
  }
  for (std::size_t i = 0; i < unrounded.size(); ++i) dw->as<float>()[i] += to_float(to_bfloat16(unrounded[i]));
}

void linear_cross_entropy_input_gradient(const Tensor& h, const Tensor& w, const Tensor& targets, const Tensor& g,
                                         CrossEntropyOptions options, const Tensor& dh, const Tensor& loss, const Tensor& log_sum_exp,
                                         Scratch scratch) {
  linear_cross_entropy_forward(h, w, targets, options, loss, log_sum_exp, scratch);
  add_gradients(h, w, targets, log_sum_exp, g, options, &dh, nullptr);
}

void linear_cross_entropy_weight_gradient(const Tensor& h, const Tensor& w, const Tensor& targets, const Tensor& log_sum_exp,
                                          const Tensor& g, CrossEntropyOptions options, const Tensor& dw, Scratch /*scratch*/) {
  add_gradients(h, w, targets, log_sum_exp, g, options, nullptr, &dw);
}

void linear_cross_entropy_gradients(const Tensor& h, const Tensor& w, const Tensor& targets, const Tensor& g, CrossEntropyOptions options,
                                    const Tensor& dh, const Tensor& loss, const Tensor& log_sum_exp, const Tensor& dw, Scratch scratch) {
  linear_cross_entropy_forward(h, w, targets, options, loss, log_sum_exp, scratch);
  add_gradients(h, w, targets, log_sum_exp, g, options, &dh, &dw);
}

const InTable linear_cross_entropy_in_table[] = {
    {Backend::reference, table::linear_cross_entropy_forward, without_context<linear_cross_entropy_forward>},
    {Backend::reference, table::linear_cross_entropy_input_gradient, without_context<linear_cross_entropy_input_gradient>},
    {Backend::reference, table::linear_cross_entropy_weight_gradient, without_context<linear_cross_entropy_weight_gradient>},
    {Backend::reference, table::linear_cross_entropy_gradients, without_context<linear_cross_entropy_gradients>},
    {Backend::reference, table::linear_logits, without_context<linear_logits>},
    {Backend::reference, table::linear_argmax, without_context<linear_argmax>},
};

}  // namespace
}  // namespace millrace::kernels::reference
