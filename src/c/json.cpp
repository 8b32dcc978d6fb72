#include "json.hpp"

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace tacit::c {

void Members::fail(const std::string& needed) const {
  constexpr std::size_t shown = 20;
  const auto rest = text_.substr(std::min(at_, text_.size()), shown);
  throw Error(ErrorKind::usage, message("options are not JSON at character ", at_ + 1, ", ",
                                        rest.empty() ? "the end" : message("\"", rest, "\""), ": ", needed));
}

char Members::next() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
  return at_ < text_.size() ? text_[at_] : '\0';
}

void Members::expect(char c) {
  if (next() != c) fail(message("there is to be a ", c));
  ++at_;
}

std::string Members::string() {
  expect('"');
  const auto end = text_.find_first_of("\"\\", at_);
  if (end == text_.npos || text_[end] == '\\') fail("names and values are \"...\" without backslashes");
  const auto found = text_.substr(at_, end - at_);
  at_ = end + 1;
  return std::string(found);
}

std::string Members::word() {
  next();
  const auto end = std::min(text_.find_first_of(" \t\r\n,}", at_), text_.size());
  const auto found = text_.substr(at_, end - at_);
  const bool known = found == "true" || found == "false" || found == "null";
  if (!known && (found.empty() || found.find_first_not_of("0123456789+-.eE") != found.npos))
    fail("a value is a \"text\", a number, true, false or null");
  at_ = end;
  return std::string(found);
}

std::string_view Members::object() {
  const auto begin = at_;
  const auto end = text_.find_first_of("}", at_);
  if (end == text_.npos) fail("a { without its }");
  at_ = end + 1;
  return text_.substr(begin, at_ - begin);
}

void Members::each(const Value& value, const Value& object_of) {
  expect('{');
  for (bool first = true; next() != '}'; first = false) {
    if (!first) expect(',');
    const std::string name = string();
    expect(':');
    if (next() == '{') {
      object_of(name, std::string(object()));
    } else if (next() == '"') {
      value(name, string());
    } else if (const std::string text = word(); text != "null") {
      value(name, text);
    }
  }
  expect('}');
  if (next() != '\0') fail("there is more behind the }");
}

namespace {

std::string quoted(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
      all += code;
    } else {
      all += c;
    }
  }
  return all + '"';
}
template <class All, class F>
std::string listed(const All& all, const F& text) {
  std::string list;
  for (const auto& one : all) list += (list.empty() ? "" : ", ") + text(one);
  return "[" + list + "]";
}

}  // namespace

std::string json_of(double number) {
  return std::isfinite(number) ? message(number) : "null";
}

std::string to_json(const krylov::Report& r, const std::string& more) {
  std::string all;
  const auto add = [&](const char* name, const std::string& value) {
    all += message(all.empty() ? "{" : ", ", "\"", name, "\": ", value);
  };
  const auto text = [&](const char* name, const std::string& value) { add(name, quoted(value)); };
  text("method", r.method), text("precond", r.precond), text("choice", r.choice);
  add("converged", r.converged() ? "true" : "false");
  text("reason", to_string(r.reason)), text("detail", r.detail), text("advice", r.advice);
  add("warnings", listed(r.warnings, quoted));
  add("iterations", message(r.iterations)), add("restarts", message(r.restarts));
  text("norm", r.norm);
  add("residual_norm", json_of(r.residual_norm));
  add("recurrence_residual_norm", json_of(r.recurrence_residual_norm));
  add("b_norm", json_of(r.b_norm)), add("projected_norm", json_of(r.projected_norm));
  add("history", listed(r.history, json_of));
  add("seconds", message("{\"solve\": ", json_of(r.seconds), ", \"explain\": ", json_of(r.explain_seconds), "}"));
  const auto& n = r.counts;
  add("counts", message("{\"reductions\": ", n.reductions, ", \"operator_applies\": ", n.operator_applies,
                        ", \"preconditioner_applies\": ", n.preconditioner_applies, ", \"exchanges\": ", n.exchanges,
                        ", \"messages\": ", n.messages, ", \"bytes\": ", n.bytes, "}"));
  return all + more + "}";
}

std::string columns_to_json(const krylov::Report& all, std::span<const std::string> columns, int together,
                            const std::string& alone, const std::string& more) {
  const auto as_is = [](const std::string& one) { return one; };
  return to_json(all, message(more, ", \"columns\": ", listed(columns, as_is), ", \"together\": ", together,
                              ", \"alone\": ", quoted(alone)));
}

}  // namespace tacit::c
