// The table of candidates over plain facts: which are tried for a matrix, in which order, and what opens or closes
// them.
#include "precond/automatic/candidates.hpp"

#include <tacit/base/error.hpp>
#include <tacit/precond/direct.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using krylov::Method;
using precond::Candidate;
using precond::candidate_rules;
using precond::candidates_for;
using precond::Facts;
using precond::Shown;
using Names = std::vector<std::string>;

/// "cg ic0", "gmres schwarz(ilut) drop", with "if indefinite" where only that opens it. Of `direct` its fill.
std::string name_of(const Candidate& c) {
  std::string name = message(to_string(c.method), " ", c.precond);
  if (c.options.solver) name += message("(", to_string(*c.options.solver), ")");
  if (c.options.drop) name += message(" ", *c.options.drop);
  if (c.options.coarsening) name += message(" ", to_string(*c.options.coarsening));
  if (c.options.absolute) name += " absolute";
  if (c.precond == "direct" && c.options.fill) name += message(" ", *c.options.fill);
  if (c.needs == Candidate::Needs::indefinite) name += " if indefinite";
  return name;
}
Names names_for(const Facts& facts) {
  Names names;
  for (const auto& c : candidates_for(facts)) names.push_back(name_of(c));
  return names;
}
/// What is left of a list in a build without a direct solver.
Names built(Names names) {
  if (!precond::direct_built()) std::erase_if(names, [](const auto& name) { return name.starts_with("direct"); });
  return names;
}
void append(Names& to, const Names& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// The end of all lists of systems that any method may solve on one rank.
const Names late = {"direct direct 40", "gmres ilut 1e-05", "direct direct 200", "gmres ilut 1e-09"};

Facts grid_like() {
  return {.n = 10000, .entries = 49600};
}
Facts definite() {
  Facts f = grid_like();
  f.hermitian = f.one_sign = true;
  return f;
}

TEST(Candidates, OfADefiniteMatrix) {
  Names expected = {"cg none",
                    "cg amg",
                    "cg amg hmis",
                    "cg ic0",
                    "cg ick",
                    "minres none if indefinite",
                    "minres ick if indefinite",
                    "gmres ilut 0.001"};
  append(expected, late);
  append(expected, {"direct direct", "auto none"});
  EXPECT_EQ(names_for(definite()), built(expected));
  Facts uneven = definite();
  uneven.spread = 100;
  expected[0] = "cg jacobi", expected[5] = "minres jacobi absolute if indefinite";
  EXPECT_EQ(names_for(uneven), built(expected));
}

TEST(Candidates, OfAHermitianMatrixThatIsNotDefinite) {
  Facts f = grid_like();
  f.hermitian = true;
  Names expected = {"minres none", "gmres amg", "gmres amg hmis", "gmres ilu0", "gmres ilut 0.001", "idr ilu0"};
  append(expected, late);
  append(expected, {"idr none", "direct direct", "auto none"});
  EXPECT_EQ(names_for(f), built(expected));
}

TEST(Candidates, OfAMatrixThatIsNotHermitian) {
  Names expected = {"bicgstab none", "gmres amg", "gmres amg hmis", "gmres ilu0", "gmres ilut 0.001", "idr ilu0"};
  append(expected, late);
  append(expected, {"idr none", "direct direct", "auto none"});
  EXPECT_EQ(names_for(grid_like()), built(expected));
}

/// Nearly complete factors come second, and the cheapest of the later ones is not tried again.
TEST(Candidates, OfANetwork) {
  Facts f = grid_like();
  f.network = true;
  Names expected = {"bicgstab none", "gmres ilut 0.001", "gmres amg", "gmres amg hmis", "gmres ilu0", "idr ilu0"};
  append(expected, late);
  append(expected, {"idr none", "direct direct", "auto none"});
  EXPECT_EQ(names_for(f), built(expected));
  EXPECT_EQ(candidates_for(f)[1].trial.first, 20);
  f.entries = 2 * f.n;  // a tree, whose factors do not fill
  EXPECT_EQ(std::ranges::count(names_for(f), "gmres amg"), 0);
}

TEST(Candidates, OfADiagonalWithZeros) {
  Facts f = grid_like();
  f.zeros = 0.25;
  Names expected = {"gmres ilu0", "gmres ilut 0.001"};
  append(expected, late);
  append(expected, {"idr none", "direct direct", "auto none"});
  EXPECT_EQ(names_for(f), built(expected));
  f.zeros = 0.5;
  expected.erase(expected.begin());
  EXPECT_EQ(names_for(f), built(expected));
  f.hermitian = true;  // a saddle point
  expected.insert(expected.begin(), "minres none");
  EXPECT_EQ(names_for(f), built(expected));
}

TEST(Candidates, OfATinyMatrix) {
  Facts f = definite();
  f.n = 20, f.entries = 58;
  const auto all = candidates_for(f);
  EXPECT_EQ(std::ranges::count(names_for(f), "cg amg"), 0);
  EXPECT_EQ(all.front().trial.first, 40);
  EXPECT_EQ(candidates_for(definite()).front().trial.first, 16);
  EXPECT_EQ(candidates_for(grid_like()).front().trial.first, 8);
}

TEST(Candidates, OfSeveralRanks) {
  Facts f = grid_like();
  f.several_ranks = true;
  Names expected = {"bicgstab none",
                    "gmres amg",
                    "gmres amg hmis",
                    "gmres schwarz(ilu0)",
                    "gmres schwarz(ilut) 0.001",
                    "idr schwarz(ilu0)",
                    "gmres schwarz(ilut) 1e-05",
                    "gmres schwarz(ilut) 1e-09",
                    "idr none",
                    "direct direct",
                    "auto none"};
  EXPECT_EQ(names_for(f), built(expected));
  for (const auto& c : candidates_for(f))
    if (c.precond == "schwarz") {
      EXPECT_EQ(*c.options.overlap, c.options.drop ? 2 : 1);
    }
  Facts g = definite();
  g.several_ranks = true;
  for (const auto& name : names_for(g)) EXPECT_EQ(name.find("schwarz"), std::string::npos) << name;
}

/// Every candidate has the method that is named; for a Hermitian one the preconditioners are definite.
TEST(Candidates, OfANamedMethod) {
  for (const auto& [method, name] : names_of<Method>.table) {
    if (method == Method::automatic) continue;
    for (Facts f : {definite(), grid_like()}) {
      f.method = method;
      const auto all = candidates_for(f);
      EXPECT_EQ(all.back().precond, "none") << name;
      for (const auto& c : all) {
        EXPECT_EQ(c.method, method) << name << " with " << c.precond;
        EXPECT_NE(c.precond, "direct") << name;
        if (krylov::needs_hermitian(method)) {
          const bool keeps = c.precond != "ilu0" && c.precond != "ilut" && c.precond != "schwarz";
          EXPECT_TRUE(keeps) << name << " with " << c.precond;
        }
      }
    }
  }
  Facts f = definite();
  f.method = Method::cg;
  EXPECT_EQ(names_for(f), (Names{"cg none", "cg amg", "cg amg hmis", "cg ic0", "cg ick", "cg none"}));
  f.method = Method::minres, f.one_sign = false, f.spread = 5;
  EXPECT_EQ(names_for(f), (Names{"minres jacobi absolute", "minres ic0", "minres ick", "minres none"}));
}

TEST(Candidates, OfLongVectors) {
  Facts f = definite();
  f.n = 300000, f.entries = 5 * f.n;
  const auto names = names_for(f);
  EXPECT_EQ(std::ranges::count(names, "auto ic0"), 1);  // a variant of cg may be faster
  EXPECT_EQ(std::ranges::count(names, "direct direct"), 0);
  for (const auto& c : candidates_for(f)) EXPECT_EQ(c.restart, krylov::default_restart);
  for (const auto& c : candidates_for(definite()))
    EXPECT_EQ(c.restart, (c.method == Method::gmres ? 2 : 1) * krylov::default_restart);
}

/// What attempts have shown opens and closes candidates.
TEST(Candidates, AreOpenByWhatWasShown) {
  const auto open = [](const Facts& f, const Shown& shown) {
    Names names;
    for (const auto& c : candidates_for(f))
      if (c.is_open(shown)) names.push_back(name_of(c));
    return names;
  };
  bool suits = true;
  Shown shown;
  shown.aggregates = [&] { return suits; };
  const auto has = [&](const Facts& f, const char* name) { return std::ranges::count(open(f, shown), name) == 1; };

  EXPECT_TRUE(has(definite(), "cg amg"));
  EXPECT_FALSE(has(definite(), "cg amg hmis"));
  shown.aggregation_is_slow = true;
  EXPECT_TRUE(has(definite(), "cg amg hmis"));
  suits = false;
  EXPECT_FALSE(has(definite(), "cg amg") || has(definite(), "cg amg hmis"));

  EXPECT_TRUE(has(definite(), "cg ic0"));
  EXPECT_FALSE(has(definite(), "minres ick if indefinite"));
  shown.indefinite = true;
  EXPECT_FALSE(has(definite(), "cg ic0") || has(definite(), "cg none"));
  EXPECT_TRUE(has(definite(), "minres ick if indefinite"));
  EXPECT_TRUE(has(definite(), "gmres ilut 0.001"));
  Facts huge = definite();
  huge.n = 300000, huge.entries = 5 * huge.n;
  EXPECT_FALSE(has(huge, "auto ic0"));

  EXPECT_TRUE(has(grid_like(), "gmres ilut 1e-05"));
  EXPECT_FALSE(has(grid_like(), "direct direct 40"));
  shown.full_without_use = 1;
  EXPECT_TRUE(has(grid_like(), "gmres ilut 1e-05"));
  EXPECT_EQ(has(grid_like(), "direct direct 40"), precond::direct_built());
  shown.full_without_use = 2;
  EXPECT_FALSE(has(grid_like(), "gmres ilut 1e-05"));
  shown.has_factorised = true;
  EXPECT_FALSE(has(grid_like(), "direct direct 40") || has(grid_like(), "direct direct"));
  EXPECT_EQ(open(grid_like(), shown).back(), "auto none");
}

/// Every row has its words, is taken for some facts, and says the method that it makes; the last one always holds.
TEST(Candidates, EveryRowCanBeReached) {
  std::set<const precond::CandidateRule*> reached;
  for (int bits = 0; bits < 32; ++bits)
    for (const double zeros : {0.0, 0.2, 0.5}) {
      Facts f = grid_like();
      f.several_ranks = bits & 1, f.network = bits & 2, f.hermitian = bits & 4;
      f.one_sign = f.hermitian && zeros == 0 && bits & 8;
      if (bits & 16) f.method = Method::gmres;
      f.zeros = zeros;
      for (const auto& c : candidates_for(f)) {
        reached.insert(c.rule);
        // Methods of several are written "cg or gmres".
        const std::string what = c.rule->what;
        EXPECT_TRUE(!f.any_method() || what.find(to_string(c.method)) != std::string::npos) << what;
      }
      EXPECT_EQ(candidates_for(f).back().rule, &candidate_rules().back());
    }
  std::set<std::string> words;
  for (const auto& rule : candidate_rules()) {
    const std::string what = rule.what, when = rule.when, why = rule.why;
    EXPECT_FALSE(what.empty() || when.empty() || why.empty()) << what;
    EXPECT_TRUE(words.insert(what + when).second) << what << " when " << when << " is there twice";
    EXPECT_TRUE(!rule.open.holds || *rule.open.words) << what;
    const bool is_built = precond::direct_built() || !what.starts_with("direct");
    EXPECT_EQ(reached.count(&rule), std::size_t(is_built)) << what;
    EXPECT_NE(precond::candidate_table().find(what), std::string::npos);
  }
}

}  // namespace
}  // namespace tacit::test
