"""What the environment of transformers' chat templates renders: writes jinja.json.

usage: jinja.py [TEMPLATE...]
Without arguments: small templates of our own, one construct each. With arguments: prints, as lines of JSON, what these
templates render from the conversations of text_chat.json, for a comparison by hand with templates of published models.
"""
import datetime
import itertools
import json
import pathlib
import sys

from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
NOW = 1750000000  # SOURCE_DATE_EPOCH of the test


class fixed_time(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)


chat_template_utils.datetime = fixed_time
VARIABLES = {
    "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hé\u00a0 Wörld 城市\n"},
                 {"role": "assistant", "content": "<think>\na\n</think>\n\nB", "n": 3}],
    "numbers": [3, 1, 2], "mixed": [1, 2.5, "a'b", None, True, {"k": ["x\n"]}], "empty": [], "yes": True, "no": False,
    "nothing": None, "word": "straße", "text": "a,b,,c", "d": {"b": 1, "a": {"x": [1, 2]}, "items": 5}, "big": 2**53,
    "tool": {"type": "function", "function": {"name": "f", "parameters": {"z": 1.0, "y": "é\u2028<b>"}}},
}
EXPRESSIONS = """
1 + 2 * 3 - 4 // 3 | 7 / 2 | -7 // 2 | -7 % 3 | 7 % -3 | 2 ** 3 ** 2 | -2 ** 2 | 10 / 4 * 2 | 1e3 | 1.5e-7 | 1_000 | 0.1 + 0.2 | 1e16 | 5.0
'a' ~ 1 ~ none ~ true ~ 2.0 ~ missing | 'a' * 3 | [1] + [2] | 'a' 'b' | 'x' in 'xyz' | 1 in numbers | 'b' in d | 9 not in numbers
1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 | 'a' == "a" | true == 1 | none == missing | missing == missing | [1, 2] == [1, 2] | 'b' > 'a' | 3 >= 3
not yes | not not yes | yes and 'x' | no or 'x' | no and missing.y | '' or nothing or 0 | 'a' if no else 'b' | 'a' if no | ('a' if no) is undefined
numbers[0] | numbers[-1] | numbers[9] | numbers[::-1] | numbers[1:] | numbers[:-1] | numbers[5:] | numbers[::2] | word[1:4] | word[::-1] | word[-2] | text[:3] | word[10:2:-3]
d.b | d['b'] | d.a.x[1] | d.items is callable | d['items'] | d.get('q') | d.get('q', 7) | d.missing | messages[0].role | messages[-1]['n'] | d.a['x'].0
mixed | d | [nothing, 'it\\'s', "say \\"hi\\"", 'both \\' and "', '\\t\\\\é\\u200b\\x7f'] | {'a': 1, 'b': [1.0, none]} | (1, 2) is sequence | [] | {}
"esc \\x41\\u00e9\\n\\q\\101" | 'ünï'.upper() | word.upper() | 'ÀB'.lower() | 'hello wORLD'.title() | 'hELLO'.capitalize() | '  x '.strip() | 'xxaxx'.strip('x') | 'abcab'.lstrip('ab') | 'abcab'.rstrip('ab')
'a b  c'.split() | text.split(',') | text.split(',', 1) | text.rsplit(',', 1) | ' a b '.split(none, 1) | 'x'.split('y') | 'a\\nb\\r\\nc'.splitlines() | '-'.join(['a', 'b']) | text.find('b') | text.find('z') | word.rfind('e') | text.count(',') | text.replace(',', ';') | text.replace(',', ';', 2) | 'abc'.replace('', '-')
text.startswith('a') | text.endswith(('b', 'c')) | text.startswith('b') | '12'.isdigit() | 'a1'.isalnum() | 'é'.isalpha() | ' '.isspace() | 'ab'.removeprefix('a') | 'ab'.removesuffix('b') | '{} {} {x} {{'.format(1, 2, x=3) | '{1}{0}'.format(1, 2)
messages[0].content | trim ;; messages[1].content | trim ;; numbers | length ;; word | length ;; d | length ;; missing | length ;; numbers | join ;; numbers | join(', ') ;; mixed | join('|') ;; messages | join(',', attribute='role')
word | upper ;; 'ABC' | lower ;; 'a bC' | title ;; 'aBC' | capitalize ;; numbers | first ;; numbers | last ;; empty | first ;; word | first ;; numbers | sort ;; numbers | sort(reverse=true) ;; ['b', 'A', 'c'] | sort ;; ['b', 'A', 'c'] | sort(case_sensitive=true) ;; messages | sort(attribute='role') | map(attribute='role') | list
messages | selectattr('role', 'equalto', 'user') | list | length ;; messages | selectattr('n') | map(attribute='n') | list ;; messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='role') | join ;; numbers | select('odd') | list ;; numbers | reject('odd') | list ;; mixed | select | list | length ;; mixed | select('string') | list ;; ['a', 'b'] | map('upper') | list ;; messages | map(attribute='n', default='-') | list ;; messages | map(attribute='missing') | list | length
missing | default('x') ;; nothing | default('x') ;; nothing | default('x', true) ;; '' | d('y', boolean=True) ;; missing | default ;; 3 | string ~ 'x' ;; none | string ;; d | items | list ;; missing | items | list ;; 'abc' | list ;; d | list ;; '12' | int ;; 'x' | int ;; 'x' | int(7) ;; 3.9 | int ;; ' 5 ' | int ;; '2.5' | float ;; 'x' | float ;; 3 | float ;; 2.5 | round ;; 2.567 | round(2) ;; -3 | abs ;; [1, 5, 2] | max ;; [1, 5, 2] | min ;; [1, 2.5] | sum ;; [1, 1, 2, 'A', 'a'] | unique | list ;; numbers | reverse | list ;; d.items() | list ;; d.keys() | list ;; d.values() | list ;; (1,) | string ;; 'abc' | reverse ;; 'aXbX' | replace('X', '-') ;; d | dictsort ;; {'b': 1, 'A': 2} | dictsort ;; 'a\\n\\nb' | indent ;; 'a\\nb' | indent(2, true) ;; '<a & "b">' | e ;; 'x' | safe
tool | tojson ;; tool | tojson(indent=2) ;; mixed | tojson ;; tool | tojson(sort_keys=true) ;; tool | tojson(separators=(',', ':')) ;; 'é😀"\\\\' | tojson(ensure_ascii=true) ;; {} | tojson(indent=4) ;; [[], {}, [1]] | tojson(indent=1) ;; 1.0 | tojson ;; 1e-7 | tojson ;; missing | tojson ;; -big | tojson
missing is defined | d.q is defined | nothing is none | missing is none | 'a' is string | 1 is string | d is mapping | numbers is mapping | numbers is iterable | 'a' is iterable | 1 is iterable | d is sequence | missing is sequence | 1 is number | true is number | true is integer | 1 is integer | 1.0 is float | yes is boolean | yes is true | 1 is true | no is false | 3 is odd | 4 is even | 9 is divisibleby 3 | 9 is divisibleby(2) | 1 is in numbers | 'A' is upper | 'a' is lower | 1 is eq 1 | 1 is ne 2 | 1 is lt 2 | 2 is ge 2 | nothing is sameas none | 1 is sameas true | not missing is defined | missing is not defined | raise_exception is callable
range(3) | list ;; range(1, 4) | list ;; range(5, 0, -2) | list ;; dict(a=1) ;; dict({'a': 1}, b=2) ;; strftime_now('%d %b %Y') ;; namespace(a=1).a
missing.x | missing + 1 | 'a' + 1 | none + 'a' | missing() | nothing.x.y | 1 / 0 | numbers.append(4) | [].foo() | raise_exception('no') | 'a' < 1 | d | join(1, 2, 3) | 'x'.split('') | nothing | length | 1 | items | missing < 1 | numbers.__class__ | (missing.a).b
"""
STATEMENTS = [
    "{% if yes %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% endif %}",
    "{% for i in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }};{% endfor %}",
    "{% for i in numbers %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }};{% endfor %}",
    "{% for i in empty %}x{% else %}none{% endfor %}", "{% for i in numbers if i > 1 %}{{ i }}{{ loop.index }}{{ loop.last }}{% else %}n{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'añ' %}{{ c }}.{% endfor %}",
    "{% for i in numbers %}{% for j in numbers %}{{ loop.depth }}{{ i * j }} {% endfor %}{% endfor %}", "{% for i in missing %}x{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% set x = 1 %}{% for i in numbers %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0, s='') %}{% for i in numbers %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.q is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set x %}a{{ yes }}b{% endset %}[{{ x }}]", "{% set x | upper | trim %} a {% endset %}[{{ x }}]",
    "{% macro m(a, b='x', c=a) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m() }}{{ m(b=2, a=1) | upper }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}", "{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}",
    "{% macro m() %}{% set y = 1 %}{{ y }}{% endmacro %}{{ m() }}{{ y is defined }}", "{% macro m(a) %}{{ a }}{% endmacro m %}{{ m('x') ~ 'y' }}",
    "{% with a=1, b=numbers %}{{ a }}{{ b }}{% set q = 1 %}{% endwith %}{{ a is defined }}{{ q is defined }}",
    "a{% generation %}b{{ yes }}{% set x = 1 %}{% endgeneration %}c{{ x is defined }}", "{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "  {% if yes %}  \n  a\n  {% endif %}\nb\n", "{%- if yes -%}\n  a  \n{%- endif -%}\n b \n\n", "x  {{- 1 -}}  y {{ 2 }}\n z", "a\n  {# note #}\nb {# n -#}  c {#- m #} d", "  {%+ if yes +%}\n a{% endif %}",
    "{% raw %}{{ x }}{% if %}{% endraw %}", "a  {%- raw -%}  {{ y }}  {%- endraw -%}  b", "{{ '{{' }}{{ '%}' }}{{ \"}}\" }}", "{{ {'a': {'b': 1}}['a']['b'] }}{{ {} }}", "a\r\nb\r{{ 1 }}\r\n",
    "{% if yes %}\n\n{% endif %}\n{% if yes %}\n{% endif %}\n\nx", "\n{% set x = 1 %}\n\t{% set y = 2 %}  \nz", "{{ 1 }}\n{{ 2 }}\n", "{{ (1, 2)[0] }}{{ 1, 2 }}", "{{ [1, 2,][1] }}{{ messages[0]['content'].strip().split()[-1] | lower }}",
    "{% for m in messages[::-1] %}{% set i = messages | length - 1 - loop.index0 %}{{ i }}{{ m.role[0] }}{% endfor %}", "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}",
    "{% for m in messages | selectattr('role', 'ne', 'system') %}{{ m.role }}{% endfor %}", "{{ yes if no else nothing if no else 'deep' }}", "{{ 'a' if yes else 'b' | upper }}{{ ('a' ~ 'b') | upper }}",
]


def render(source, variables):
    try:
        template = chat_template_utils._compile_jinja_template(source)
        blocks, places = [], []
        with template.environment.activate_tracker(blocks, places):
            for part in template.generate(**variables):
                blocks.append(part)
        text = "".join(blocks)
        return {"text": text, "generated": [[len(text[:i].encode()) for i in place] for place in places]}
    except Exception as e:  # whatever Jinja or Python refuse
        return {"error": type(e).__name__}


def main():
    if len(sys.argv) > 1:
        golden = json.loads((HERE / "text_chat.json").read_text())
        for path, (name, messages), tools, prompt in itertools.product(
                sys.argv[1:], golden["conversations"].items(), (None, golden["tools"]), (False, True)):
            source = pathlib.Path(path).read_text()
            variables = {"messages": chat_template_utils._alias_reasoning_fields(messages), "tools": tools,
                         "documents": None, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
            print(json.dumps({"template": source, "variables": variables, "name": f"{path}: {name}"} | render(source, variables)))
        return
    sources = list(STATEMENTS)
    for line in EXPRESSIONS.strip().split("\n"):
        sources += ["{{ " + e.strip() + " }}" for e in line.split(" ;; " if " ;; " in line or " | " in line and ";;" in line else " | ")]
    cases = [{"template": source} | render(source, VARIABLES) for source in sources]
    (HERE / "jinja.json").write_text(json.dumps({"variables": VARIABLES, "cases": cases}, ensure_ascii=False, indent=0) + "\n")


main()
