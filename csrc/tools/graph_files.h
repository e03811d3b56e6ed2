#pragma once

// What the tools that read graphs share.

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/pipeline.h"
#include "ir/graph.h"

namespace tilewright::tools {

inline std::string read_input(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream in(path);
  if (!in) throw UserError("cannot read '" + path + "'");
  text << in.rdbuf();
  return text.str();
}

inline void check_valid(const Graph& graph, const std::string& when) {
  const std::vector<std::string> errors = verify(graph);
  if (errors.empty()) return;
  std::string message = "@" + graph.name() + " is not valid " + when + ":";
  for (const std::string& error : errors) message += "\n" + error;
  throw UserError(message);
}

inline std::vector<const GraphPass*> passes_of(const std::vector<std::string>& names) {
  std::vector<const GraphPass*> passes;
  for (const std::string& name : names) {
    const GraphPass* pass = find_pass(name);
    if (!pass) {
      std::vector<std::string> known;
      for (const GraphPass& each : graph_passes()) known.emplace_back(each.name);
      const std::string nearest = nearest_name(name, known);
      throw UserError("no pass '" + name + "'" + (nearest.empty() ? "" : ", did you mean '" + nearest + "'?"));
    }
    passes.push_back(pass);
  }
  return passes;
}

inline void run_passes(Graph& graph, const std::vector<const GraphPass*>& passes, const Context& ctx) {
  for (const GraphPass* pass : passes) {
    pass->run(graph, ctx);
    check_valid(graph, std::string("after ") + pass->name);
  }
}

// "name=value" texts as options over the defaults.
inline Options options_of(const std::vector<std::string>& texts, const std::string& target) {
  Options options;
  options.target = target;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) throw UserError("option '" + text + "' is not name=value");
    set_option(options, text.substr(0, equals), text.substr(equals + 1));
  }
  return options;
}

// Runs a tool's main function; an exception becomes a message and exit status 1.
inline int guarded(const char* tool, int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UserError& error) {
    std::cerr << tool << ": " << error.what() << '\n';
  } catch (const std::exception& error) {
    std::cerr << tool << ": internal error: " << error.what() << '\n';
  }
  return 1;
}

}  // namespace tilewright::tools
