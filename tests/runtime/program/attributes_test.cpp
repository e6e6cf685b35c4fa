#include "runtime/program/attributes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/base/route_options.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime::testing {
namespace {

struct NormOptions {
  float epsilon = 1e-5F;
  bool round_first = true;
  static constexpr auto members() {
    return std::tuple(kernels::member("epsilon", &NormOptions::epsilon), kernels::member("round_first", &NormOptions::round_first));
  }
};

/// The members of NormOptions, under another name.
struct OtherOptions {
  float epsilon = 1e-5F;
  bool round_first = true;
  static constexpr auto members() {
    return std::tuple(kernels::member("epsilon", &OtherOptions::epsilon), kernels::member("round_first", &OtherOptions::round_first));
  }
};

struct PartOptions {
  std::vector<std::int64_t> widths;
  static constexpr auto members() { return std::tuple(kernels::member("widths", &PartOptions::widths)); }
};

struct ForgetfulOptions {
  float epsilon = 0, offset = 0;
  static constexpr auto members() { return std::tuple(kernels::member("epsilon", &ForgetfulOptions::epsilon)); }
};
struct UnlistedOptions {
  float epsilon = 0;
};
static_assert(kernels::Options<NormOptions> && kernels::Options<PartOptions>);
static_assert(!kernels::Options<ForgetfulOptions>, "a member that members() leaves out");
static_assert(!kernels::Options<UnlistedOptions>);

TEST(Attributes, GiveBackTheOptionsThatWereGiven) {
  const Attributes attributes = NormOptions{.epsilon = 0.5F, .round_first = false};
  EXPECT_EQ(attributes.as<NormOptions>().epsilon, 0.5F);
  EXPECT_FALSE(attributes.as<NormOptions>().round_first);
  const Attributes copy = attributes;
  EXPECT_EQ(copy.as<NormOptions>().epsilon, 0.5F);
}

TEST(Attributes, AnotherRulesOptionsAreRefused) {
  const Attributes attributes = NormOptions{};
  tests::expect_error([&] { static_cast<void>(attributes.as<OtherOptions>()); }, ExitCode::internal,
                      {"options of another rule (epsilon=1e-05 round_first=1)"});
  tests::expect_error([] { static_cast<void>(Attributes{}.as<OtherOptions>()); }, ExitCode::internal, {"no options"});
}

TEST(Attributes, PrintEveryMemberInOrder) {
  EXPECT_EQ(Attributes{}.text(), "");
  EXPECT_EQ(Attributes(NormOptions{.round_first = false}).text(), "epsilon=1e-05 round_first=0");
  EXPECT_EQ(Attributes(PartOptions{{8, 4}}).text(), "widths=8,4");
  const auto route = Attributes(kernels::RouteOptions{.score = kernels::RouterScore::sqrt_softplus}).text();
  EXPECT_NE(route.find(" score=sqrt_softplus bias=none "), std::string::npos) << route;
}

TEST(Attributes, AreEqualWhereEveryMemberIs) {
  const Attributes plain = NormOptions{}, same = NormOptions{}, last = NormOptions{.round_first = false}, none;
  EXPECT_EQ(plain, same);
  EXPECT_EQ(plain.hash(), same.hash());
  EXPECT_NE(plain, last);
  EXPECT_NE(plain.hash(), last.hash());
  EXPECT_NE(plain, Attributes(OtherOptions{}));
  EXPECT_NE(plain, none);
  EXPECT_NE(none, plain);
  EXPECT_EQ(none, Attributes{});
  EXPECT_NE(Attributes(PartOptions{{8, 4}}), Attributes(PartOptions{{8}}));
}

}  // namespace
}  // namespace millrace::runtime::testing
