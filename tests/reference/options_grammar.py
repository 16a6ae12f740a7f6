"""Overrides as Hydra reads and applies them: writes options_grammar.json. Needs hydra-core (see requirements.txt)."""
import copy
import json
import pathlib

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from omegaconf import OmegaConf

TOKENS = r"""
a.b.c=v|+a.b.c=v|++a.b.c=v|+++a=1|~a.b.c|~a.b.c=v|~a=|a|+a|a.b=|a= |a =1| a=1|a=b c |=1||a-b=1|a.b-c=1|1=2|$a=1|a.$b=1
a.b.=1|.a=1|a..b=1|a.0.b=1|a.00=1|a@b=1|a@b.c=1|a/b=1|a/b/c=1|a/b.c=1|a@b@c=1|A.b=1|_x=1
a=true|a=True|a=TRUE|a=TrUe|a=tru|a=false|a=yes|a=on|a=null|a=Null|a=NULL|a=None|a=nul
a=10|a=-1|a=+5|a=0|a=-0|a=1_000|a=1__0|a=1_|a=010|a=00|a=0x10|a=1a|a=9223372036854775807
a=5e-7|a=1.|a=.5|a=1.5|a=1.e5|a=1e5|a=1E+5|a=-.5e-2|a=1_0.5_0|a=inf|a=-inf|a=+inf|a=Inf|a=nan|a=-nan|a=infinity|a=1e400|a=1e-400|a=01.5|a=1.2.3|a=1e|a=e5
a=[a,b]|a=['a','b']|a=["a"]|a=[]|a=[ a , 'b' , [c] ]|a=[1,]|a=[,1]|a=[1,2|a=[1] |a= [1]|a=[null,true,1.5,x y]|a=[a=b]|a=[[],{}]|a=[x,[y,{z:1}]]|a=[a:b]
a={}|a={x:1}|a={x: 1, y: [1,2]}|a={'x':1}|a={x:1,x:2}|a={x:a:b}|a={a b: 1}|a={:1}|a={x:}|a={x:1|a={x:{y:{z:null}}}|a={x.y:1}|a={x:1} |a={-1:x}
a='x y'|a="x"|a=''|a=""|a='a,b'|a='it\'s'|a="it's"|a="say \"hi\""|a='x\\'|a="\\\\"|a='a\b'|a='a\\b'|a='a\\\'b'|a='x' |a= 'x'|a=x'y'|a='x'y|a='x|a="x'|a='true'|a='10'|a='null'|a='中文'|a='${b}'
a=a,b|a=1,2|a=[1],[2]|a=choice(1,2)|a=range(1,3)|a=foo(1)|a=f (x)|a=(x)
a=a=b|a=x{y|a=x}y|a=~/x|a=x~y|a=/x/y.z|a=x:y:z|a=user@host:5|a=100%|a=*.py|a=a?b|a=-|a=--x|a=$x|a=a+b|a=!x|a=x#y|a=x;y|a=<x>|a=x^y|a=中文|a=x	y|a=two  words
a=\(x\)|a=x\,y|a=\\|a=\x|a=x\ |a=\ x|a=\[1\]|a=\{x\}|a=a\:b|a=a\=b|a=a\\b
a=${b.c}|a=${b}/c|a=${b}${c}|a=${ b }|a=${}|a=${b|a=${a.${b}}|a=[${b},x]|a={x:${b}}|a={${b}:x}|a=${oc.env:X}|a=${.b}
a=Qwen/Qwen2.5-0.5B-Instruct|a=$HOME/data/x.parquet|a=low_var_kl|a=token-mean|a=2024-01-01|a=10s|a=1.0.0|a=v1|a=1 2|a=true false
"""

BASE = """
a: {b: 1, c: hello, n: null, l: [1, 2], m: {x: 1, y: 2}, ref: '${a.b}', rel: '${.c}', txt: 'v${a.b}-${a.c}'}
free: {}
"""

COMPOSE = [
    ["a.b=2"], ["a.z=1"], ["+a.z=1"], ["+a.b=1"], ["+a.b=null"], ["+a.n=1"], ["+a.n={x:1}"], ["+a.b=[1]", "a.txt=0"],
    ["+a.m={z:1}"], ["a.m={x:5}"], ["a.m={z:5}"], ["a.m={x:{k:1}}"], ["a.m=null"], ["a.m=5"], ["a.l=[3]"], ["+a.l=[3]"],
    ["a.l=null"], ["++a.b=3"], ["++a.q.r=3"], ["+a.q.r=3", "a.q.r=4"], ["~a.b"], ["~a.b=1"], ["~a.b=2"], ["~a.zz"],
    ["~a.m"], ["~a.b", "+a.b=5"], ["~a.l"], ["a.b=1", "a.b=7"], ["+free.x.y=1"], ["free={p:1}"], ["+free={p:1}"],
    ["a.c='${a.b}'"], ["a.c=${a.b}x"], ["a.c=\\${a.b}"], ["a.c='\\${a.b}'"], ["a.c=${zz}"], ["a.c=${a.b}", "a.b=9"],
    ["a.c=[${a.b},x]", "a.txt=0"], ["a.b=${a.ref}"], ["a.c=p${a.n}q"], ["a.c=${a.l[0]}"], ["a.c=${a.l[7]}"], ["a.c=${a.b} and"],
    ["a.c=${ a.b }"], ["a.b=1e-7", "a.c=v${a.b}"], ["a.b=true"], ["a.c=1.0"], ["a.m.x=${..b}"], ["a.c=${a.m}", "a.txt=0"],
    ["a.b=[1,x]", "a.txt=0"], ["a.c=${oc.env:RLCORE_SURELY_UNSET,me}"], ["a.c=${oc.env:RLCORE_SURELY_UNSET}"],
    ["a.c=${nosuch:x}"], ["a.b.c=1"], ["+a.c.d=1", "a.txt=0"],
]


def typed(v):
    if isinstance(v, QuotedString):
        return v.text
    if isinstance(v, float):
        return {"float": repr(v)}
    if isinstance(v, list):
        return [typed(x) for x in v]
    if isinstance(v, dict):
        return {"map": [[str(k), typed(x)] for k, x in v.items()]}
    return v


def parse(parser, text):
    try:
        o = parser.parse_override(text)
        if o.is_sweep_override():
            return {"text": text, "error": "sweep"}
        key = o.key_or_group + ("@" + o.package if o.package is not None else "")
        case = {"text": text, "kind": o.type.name, "key": key}
        if o.value_type is not None:
            case["value"] = typed(o._value)
        return case
    except Exception:
        return {"text": text, "error": "syntax"}


def compose(parser, overrides):
    config = OmegaConf.create(BASE)
    OmegaConf.set_struct(config, True)
    try:
        ConfigLoaderImpl._apply_overrides_to_config(parser.parse_overrides(overrides), config)
        return {"overrides": overrides, "result": typed(OmegaConf.to_container(config, resolve=True))}
    except Exception as e:
        return {"overrides": overrides, "error": type(e).__name__}


def main():
    parser = OverridesParser.create()
    texts = [t for line in TOKENS.strip("\n").split("\n") for t in line.split("|")] + ["a=a|b", "a='x\ny'"]
    result = {
        "tokens": [parse(parser, t) for t in texts],
        "base": typed(OmegaConf.to_container(OmegaConf.create(BASE), resolve=False)),
        "compose": [compose(parser, copy.copy(o)) for o in COMPOSE],
    }
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(result, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
