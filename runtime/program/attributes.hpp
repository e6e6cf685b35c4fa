#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>

#include "kernels/base/check.hpp"
#include "kernels/base/options.hpp"
#include "runtime/program/epilogue.hpp"

namespace millrace::runtime {

/// The attributes of an operation: the Options struct of its kernel, type-erased, and its epilogue. Only the operation's rule knows
/// the struct; all other code prints and compares its members. Options are immutable, and cheap to copy: operations share them.
class Attributes {
 public:
  /// An operation without options.
  Attributes() = default;
  template <kernels::Options T>
  Attributes(const T& options) : held_(std::make_shared<const Held<T>>(options)) {}  // NOLINT: the options are the attributes

  /// The options as a T, for a rule that expects one. Throws Error(internal) if it holds another struct or none.
  template <kernels::Options T>
  [[nodiscard]] const T& as() const {
    const auto* held = dynamic_cast<const Held<T>*>(held_.get());
    MILLRACE_CHECK(held != nullptr, ExitCode::internal, "runtime.program", "the operation holds {}, expected the options of its rule",
                   held_ == nullptr ? "no options" : "options of another rule (" + text() + ")");
    return held->options;
  }
  /// "epsilon=1e-05 offset=0 round_first=1": the members in the struct's order; empty without options.
  [[nodiscard]] std::string text() const { return held_ == nullptr ? "" : held_->text(); }
  [[nodiscard]] std::size_t hash() const { return held_ == nullptr ? 0 : held_->hash(); }
  /// True if the epilogues are equal, and both have no options or the same struct with equal members.
  friend bool operator==(const Attributes& a, const Attributes& b) {
    if (a.epilogue != b.epilogue) return false;
    if (a.held_ == b.held_) return true;
    return a.held_ != nullptr && b.held_ != nullptr && a.held_->equals(*b.held_);
  }

  Epilogue epilogue;

 private:
  struct AnyHeld {
    virtual ~AnyHeld() = default;
    [[nodiscard]] virtual std::string text() const = 0;
    [[nodiscard]] virtual std::size_t hash() const = 0;
    [[nodiscard]] virtual bool equals(const AnyHeld& other) const = 0;
  };

  template <class Value>
  static std::string text_of(const Value& value) {
    if constexpr (std::ranges::range<Value>)
      return fmt::format("{}", fmt::join(value, ","));
    else if constexpr (requires { to_string(value); })
      return std::string(to_string(value));
    else
      return fmt::format("{:g}", static_cast<double>(value));
  }

  template <class T>
  struct Held final : AnyHeld {
    explicit Held(const T& options_) : options(options_) {}

    [[nodiscard]] std::string text() const override {
      std::string all;
      for_members([&](const auto& member) {
        all += fmt::format("{}{}={}", all.empty() ? "" : " ", member.name, text_of(options.*member.pointer));
      });
      return all;
    }
    [[nodiscard]] std::size_t hash() const override {
      std::size_t all = 0;
      for_members([&](const auto& member) { all = all * 31 + std::hash<std::string>{}(text_of(options.*member.pointer)); });
      return all;
    }
    [[nodiscard]] bool equals(const AnyHeld& other) const override {
      const auto* same = dynamic_cast<const Held*>(&other);
      if (same == nullptr) return false;
      bool equal = true;
      for_members([&](const auto& member) { equal = equal && options.*member.pointer == same->options.*member.pointer; });
      return equal;
    }
    template <class Visit>
    void for_members(Visit&& visit) const {
      std::apply([&](const auto&... members) { (visit(members), ...); }, T::members());
    }

    T options;
  };

  std::shared_ptr<const AnyHeld> held_;
};

}  // namespace millrace::runtime
