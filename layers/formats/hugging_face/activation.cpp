#include "layers/formats/hugging_face/activation.hpp"

#include <array>
#include <string>
#include <utility>

namespace millrace::layers {
namespace {

using kernels::Activation;

/// The first of a function's names is the one that is written.
constexpr std::array<std::pair<std::string_view, Activation>, 24> activation_names = {{
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu_pytorch_tanh", Activation::gelu},
    {"gelu_new", Activation::gelu},
    {"gelu_fast", Activation::gelu},
    {"gelu_accurate", Activation::gelu},
    {"gelu_python_tanh", Activation::gelu},
    {"gelu", Activation::gelu_erf},
    {"gelu_python", Activation::gelu_erf},
    {"gelu_10", Activation::gelu_10},
    {"quick_gelu", Activation::quick_gelu},
    {"relu", Activation::relu},
    {"relu2", Activation::relu2},
    {"relu6", Activation::relu6},
    {"leaky_relu", Activation::leaky_relu},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
    {"linear", Activation::linear},
    {"hardswish", Activation::hardswish},
    {"mish", Activation::mish},
    {"laplace", Activation::laplace},
    {"sqrtsoftplus", Activation::sqrtsoftplus},
    {"prelu", Activation::prelu},
    {"xielu", Activation::xielu},
}};

}  // namespace

Activation read_activation(runtime::JsonReader& reader, const char* key) {
  const std::string name = reader.text(key).value_or("");
  std::string names;
  for (const auto& [known, activation] : activation_names) {
    if (name == known) return activation;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  reader.refuse(key, "supported are " + names);
}

std::string_view activation_name(Activation activation, std::string_view tanh_gelu) {
  if (activation == Activation::gelu) return tanh_gelu;
  for (const auto& [name, known] : activation_names)
    if (known == activation) return name;
  return "?";
}

}  // namespace millrace::layers
