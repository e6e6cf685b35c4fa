#include "layers/attention/delta_net_spec.hpp"

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

constexpr const char* component = "layers.delta_net";

}  // namespace

DeltaNetSpec delta_net_spec(const ModelConfig& config) {
  for (const auto& [name, size] : {std::pair{"linear_key_heads", config.linear_key_heads},
                                   {"linear_value_heads", config.linear_value_heads},
                                   {"linear_key_head_dim", config.linear_key_head_dim},
                                   {"linear_value_head_dim", config.linear_value_head_dim},
                                   {"linear_conv_kernel_dim", config.linear_conv_kernel_dim}})
    MILLRACE_CHECK(size >= 1, ExitCode::model, component, "{}: {} = {} with linear layers, expected 1 or more", config.family, name, size);
  MILLRACE_CHECK(config.linear_value_heads % config.linear_key_heads == 0, ExitCode::model, component,
                 "{}: linear_value_heads = {}, linear_key_heads = {}, expected linear_value_heads a multiple of linear_key_heads",
                 config.family, config.linear_value_heads, config.linear_key_heads);
  MILLRACE_CHECK(config.linear_conv_kernel_dim <= kernels::max_convolution_taps, ExitCode::model, component,
                 "{}: linear_conv_kernel_dim = {}, expected at most {}", config.family, config.linear_conv_kernel_dim,
                 kernels::max_convolution_taps);
  return {.key_heads = config.linear_key_heads,
          .value_heads = config.linear_value_heads,
          .key_head_dim = config.linear_key_head_dim,
          .value_head_dim = config.linear_value_head_dim,
          .taps = config.linear_conv_kernel_dim};
}

std::optional<Initial> initial_delta_net_parameter(const std::string& name, const std::string& norm, double least) {
  if (name.ends_with(".A_log")) return Initial{.kind = InitialKind::log_uniform, .least = least, .most = 16};
  if (name.ends_with(".dt_bias") || name.ends_with(norm)) return Initial{InitialKind::ones};
  return std::nullopt;
}

}  // namespace millrace::layers
