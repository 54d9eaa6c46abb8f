"""Words of the languages beside English that deny, conclude, correct and present an answer. Data for the rules.

Phrases have `_` for blanks. Chinese and Japanese words are found inside a run of characters, all others as words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

Words = dict[str, str]


def union(*tables: Words) -> frozenset[str]:
    """The words of all languages."""
    return frozenset(word for table in tables for words in table.values() for word in words.split())


MARKERS: Words = {
    # What English text does not hold: one of these and the rules of the other languages are tried.
    "de": "mit auf dem den im am zum zur von bei nach aus wird werden wurde hat haben sieht man sich dass "
    "daher dann noch nur sehr dieser diese dieses bild sind wie auch wegen zwischen unter neben hinter "
    "vor der die das ein eine einen einem ist sind nicht kein keine keinen antwort richtig auf und ich "
    "es ja nein doch also somit",
    "fr": "dans avec pour qui que ce cette ces des du au aux par plus sont être voit image car deux sous "
    "derrière devant très elle ils nous vous leur comme où le la les un une est sont n c l d pas "
    "réponse bonne et je il elle on non oui donc option lettre sur",
    "es": "con por para que del al está están en su sus más este esta esto una unos muy como porque imagen "
    "ve detrás sobre entre hacia cuando pero lo el los las una es son respuesta opción correcta y yo "
    "sí en no se hay creo elijo letra",
    "pt": "com por para que do da dos das ao está estão em no na nos nas seu sua mais este esta isto uma uns "
    "muito como porque imagem vê atrás sobre entre pois foi ele ela o os um uma é são não resposta "
    "alternativa correta e eu sim há letra acho escolho opção",
    "it": "con per che del della dei delle al alla nel nella sul sulla dal questo questa è sono più molto "
    "come perché immagine si vede dietro sopra tra degli gli ha tratta sui anche il lo gli i uno è "
    "sono risposta corretta opzione e io sì si di credo scelgo lettera",
    "nl": "met voor dat die deze dit van op aan bij uit wordt worden heeft hebben ziet men zich omdat dan "
    "nog maar zeer afbeelding foto als ook onder naast achter tussen door de het een zijn niet geen "
    "antwoord juiste optie en ik nee van dus denk kies letter",
    "pl": "z w ze we po od za przy dla że ten ta tę się jak tylko bardzo obraz zdjęciu widać obrazku jego "
    "jej są był była było między pod nad obok przed czy już jest to są nie odpowiedź poprawna i ja tak "
    "na wybieram opcja więc",
    "tr": "ile için çok daha gibi olan olarak görülüyor görselde resimde fotoğrafta bu şu o ki ne mi mı "
    "üzerinde altında yanında var iki kadar sonra bu bir değil cevap doğru yanlış seçenek şık ve hayır "
    "evet var yok",
    "id": "yang di ke dari dengan untuk pada adalah tersebut gambar ini itu ada karena atau dan juga akan "
    "sedang oleh lebih dalam seperti terlihat ini itu adalah bukan tidak jawaban yang benar pilihan "
    "saya pilih jawabannya",
    "vi": "của và trong có một những các cho với người ảnh hình được ở từ trên dưới khi này đó thì mà đang "
    "như rất là không phải đáp án đúng chọn tôi câu trả lời này đây",
}

ANSWER: Words = {
    "de": "antwort lösung antwortmöglichkeit ergebnis fazit endergebnis",
    "fr": "réponse solution choix conclusion",
    "es": "respuesta solución conclusión",
    "pt": "resposta gabarito conclusão solução",
    "it": "risposta soluzione conclusione",
    "nl": "antwoord antwoordt conclusie oplossing",
    "pl": "odpowiedź odpowiedzią odpowiedzi wniosek rozwiązanie odp",
    "ru": "ответ ответом вывод ответа",
    "tr": "cevap cevabı cevabım yanıt yanıtı sonuç",
    "id": "jawaban jawabannya kesimpulan kesimpulannya",
    "vi": "đáp_án câu_trả_lời kết_luận",
    "ar": "الإجابة الاجابة الجواب إجابة جواب الحل",
    "hi": "उत्तर जवाब निष्कर्ष",
    "ko": "정답 정답은 답 답은 답이 정답이 결론 결론은 정답으로 답으로",
}
OPTION: Words = {
    "en": "option choice letter alternative",
    "de": "option variante antwortoption buchstabe möglichkeit antwort",
    "fr": "option lettre proposition choix",
    "es": "opción letra alternativa opcion inciso literal",
    "pt": "alternativa letra opção item",
    "it": "opzione lettera alternativa",
    "nl": "optie letter keuze",
    "pl": "opcja opcję opcji litera wariant odpowiedź",
    "ru": "вариант варианта вариантом буква пункт варианты",
    "tr": "seçenek şık seçeneği şıkkı",
    "id": "pilihan opsi huruf",
    "vi": "phương_án lựa_chọn",
    "ar": "الخيار الاختيار خيار حرف",
    "hi": "विकल्प",
    "ko": "보기 선택지 옵션 번 번호",
}
CORRECT: Words = {
    "en": "correct right",
    "de": "richtig richtige richtigen korrekt korrekte zutreffend stimmt passt passende beste",
    "fr": "bonne correcte correct juste exacte exact bon meilleure vrai",
    "es": "correcta correcto acertada verdadera adecuada mejor",
    "pt": "correta correto certa certo verdadeira melhor",
    "it": "corretta corretto giusta giusto esatta esatto migliore",
    "nl": "juist juiste goed goede correct correcte klopt beste",
    "pl": "poprawna poprawną prawidłowa prawidłową właściwa dobra słuszna poprawne",
    "ru": "правильный правильная правильно верный верная верно верен верна подходит правильным верным",
    "tr": "doğru doğrudur doğrusu",
    "id": "benar tepat betul",
    "vi": "đúng chính_xác",
    "ar": "الصحيحة الصحيح صحيحة صحيح",
    "hi": "सही",
    "ko": "맞습니다 맞다 맞아요 정답입니다 옳습니다 맞는 정답이다 정답이에요 올바른 맞음",
}
FINAL: Words = {
    "any": "finale final définitive definitiva endgültige endgültig eindelijke uiteindelijke ostateczna окончательный "
    "końcowa meine ma mi meu mijn moja мой benim saya đó vậy cuối_cùng النهائية अंतिम मेरा 최종",
}
CHOOSE: Words = {
    "de": "wähle nehme tippe_auf entscheide_mich_für würde_sagen sage",
    "fr": "choisis dirais opte_pour sélectionne prends",
    "es": "elijo escojo diría selecciono me_quedo_con opto_por elegiría",
    "pt": "escolho diria seleciono opto_por fico_com marco",
    "it": "scelgo direi seleziono opto_per",
    "nl": "kies zeg ga_voor kiezen selecteer",
    "pl": "wybieram stawiam_na wybrałbym zaznaczam wybieramy",
    "ru": "выбираю выберу выбрать выбираем",
    "tr": "seçiyorum seçerdim seçerim",
    "id": "pilih memilih",
    "vi": "chọn",
    "ar": "أختار اخترت",
    "hi": "चुनता चुनूंगा चुनूँगा",
}
FILL: Words = {
    # Between the words of a verdict: copulas, articles, pronouns, adverbs.
    "any": ": - = → ,",
    "de": "die der das den dem ein eine einen einem ist es sind lautet wäre wahrscheinlich vermutlich klar "
    "eindeutig also daher hier ich "
    "würde sagen mit zu am ehesten wohl sicher sicherlich nummer meine damit dann tippe auf denke glaube "
    "meiner meinung nach zeigt sehe handelt sich um",
    "fr": "le la les l un une est c ce s sera serait probablement clairement donc être numéro je dirais il "
    "elle agit d de du que qu plutôt "
    "ici à mon avis ma pense crois",
    "es": "el lo los las la una un es son sería sin_duda probablemente claramente que por tanto número se "
    "trata de yo diría mi creo aquí "
    "parece ser del una pienso",
    "pt": "o os a as um uma é são seria que provavelmente claramente portanto número trata se de eu diria "
    "minha acho aqui parece ser creio",
    "it": "il lo la gli i l le è sono sarebbe probabilmente chiaramente quindi dunque numero un una uno si "
    "tratta di che direi mia credo penso qui",
    "nl": "de het een is zou zijn zou_zijn waarschijnlijk duidelijk dus nummer ik denk dat mijn hier gaat om "
    "volgens mij dit",
    "pl": "to jest są będzie prawdopodobnie więc zatem numer moim zdaniem że myślę tutaj widać "
    "najprawdopodobniej jak_dla_mnie",
    "ru": "это очевидно вероятно скорее всего явно номер на под будет думаю что мой здесь значит наверное "
    "считаю по-моему является",
    "tr": "bu bence olarak için bir numara budur büyük_ihtimalle muhtemelen da de galiba sanırım",
    "id": "adalah ialah yaitu yang ini itu nomor saya mungkin kemungkinan jadi menurut",
    "vi": "là chính sẽ có_lẽ số đây theo tôi nên thì",
    "ar": "هي هو هذا هذه رقم في رأيي ربما حرف",
    "hi": "है यह मेरा मेरे हिसाब से शायद नंबर होगा",
    "ko": "가 이 은 는 로 으로 번 아마 것은 이것은 제 생각에는",
}
COPULA: Words = {
    "de": "ist sind lautet wäre",
    "fr": "est c sont serait",
    "es": "es son sería",
    "pt": "é são seria",
    "it": "è sono sarebbe",
    "nl": "is zijn",
    "pl": "to jest są",
    "ru": "это является",
    "id": "adalah ialah yaitu",
    "vi": "là",
    "ar": "هي هو",
    "hi": "है",
    "tr": "olarak",
    "ko": "은 는",
}
WRONG: Words = {
    "de": "falsch falsche falschen unzutreffend ausgeschlossen unmöglich inkorrekt ausscheiden scheidet_aus "
    "scheiden_aus scheiden scheidet entfallen entfällt fällt_weg fallen_weg fällt_aus",
    "fr": "fausse faux mauvaise mauvais incorrecte incorrect impossible exclue exclu écarté éliminé exclus "
    "inexacte erronée",
    "es": "incorrecta incorrecto falsa falso descartada descartado descarta imposible errónea equivocada "
    "descartan descartadas",
    "pt": "incorreta incorreto errada errado falsa descartada impossível incorretas erradas",
    "it": "sbagliata sbagliato errata errato falsa scorretta esclusa escluse impossibile escludono",
    "nl": "fout foute foutieve verkeerde onjuiste onjuist verkeerd uitgesloten onmogelijk vallen_af valt_af vervalt",
    "pl": "błędna błędne niepoprawna nieprawidłowa odpada odpadają fałszywa wykluczona niemożliwa",
    "ru": "неверно неверный неверен неверна неправильный неправильно исключается исключены исключаем "
    "отпадает отпадают ошибочен неправильная",
    "tr": "yanlış yanlıştır elenir hatalı olamaz uymuyor",
    "id": "salah keliru",
    "vi": "sai không_đúng",
    "ar": "خطأ خاطئة خاطئ غير_صحيحة غير_صحيح",
    "hi": "गलत",
}
NEGATION: Words = {
    "de": "nicht kein keine keinen keiner keinem keines weder noch ohne statt nie anstatt anstelle außer",
    "fr": "pas ni sans aucun aucune jamais n ne nulle plutôt_que sauf excepté hormis",
    "es": "no ni sin ningún ninguna ninguno nunca tampoco en_lugar_de en_vez_de excepto salvo",
    "pt": "não nem sem nenhum nenhuma nunca em_vez_de exceto tampouco",
    "it": "non né nè ne' senza nessun nessuna nessuno mai anziché invece_di tranne eccetto",
    "nl": "niet geen noch zonder nooit in_plaats_van behalve evenmin",
    "pl": "nie ani bez żaden żadna żadnego zamiast oprócz niema brak",
    "ru": "не ни нет без вместо кроме никакой никакого",
    "id": "bukan bukanlah tidak tanpa tak",
    "vi": "không_phải không không_phải_là chẳng_phải không_có",
    "ar": "ليس ليست لا بدون لم لن وليس وليست غير",
}
NEGATION_BEHIND: Words = {
    # Behind the words they deny.
    "tr": "değil değildir yok yoktur",
    "hi": "नहीं",
}
DENIED_BEHIND_DENSE = (
    "不是 不对 不對 不正确 不正確 错误 錯誤 错的 不可能 不符 不符合 不选 不選 排除 不行 不合适 "
    "除外 与图片内容不符 不在 不见 没有 沒有 "
    "ではない ではありません じゃない ではなく ではなかった でもない でもありません は違い は誤り "
    "は間違い は不正解 はない は除外 は写っていません "
    "はいません はありません は見えません は見当たりません は含まれ は不適切 も違い が誤り は該当しません は消去 "
    "는_아닙니다 은_아닙니다 이_아닙니다 가_아닙니다"
).replace("_", " ")
DENIED_BEFORE_DENSE = (
    "不是 并不是 並不是 不选 不選 并非 並非 绝非 而非 不应选 排除 没有 沒有 不可能是 除了 不会是 "
    "不會是 不見 不见 唯独不见 看不到 而不是 "
    "不算 不像"
)
DENIED_BEHIND_KOREAN = (
    "아닙니다 아니다 아니에요 아니라 아니고 아니며 아니지만 아니므로 아님 아닌 제외 제외됩니다 "
    "틀렸습니다 틀립니다 오답입니다 없습니다 없고 없다 틀린"
)

CONTRAST: Words = {
    "en": "but however yet although though",
    "de": "aber sondern jedoch doch allerdings dennoch",
    "fr": "mais cependant toutefois pourtant",
    "es": "pero sino aunque no_obstante sin_embargo",
    "pt": "mas porém contudo todavia entretanto",
    "it": "ma bensì però tuttavia",
    "nl": "maar echter toch",
    "pl": "ale lecz jednak a",
    "ru": "но а однако",
    "tr": "ama fakat ancak oysa",
    "id": "tapi tetapi melainkan namun",
    "vi": "nhưng mà",
    "ar": "بل لكن ولكن",
    "hi": "लेकिन परंतु पर बल्कि किंतु",
    "ko": "하지만 그러나 그런데",
}
CORRECTION: Words = {
    # At the beginning of a clause: what was said before it is taken back.
    "en": "wait hold_on hang_on no nope sorry oops whoops actually on_second_thought on_second_thoughts scratch_that "
    "strike_that correction my_mistake my_bad my_apologies apologies let_me_recount let_me_re "
    "let_me_correct let_me_reconsider "
    "let_me_rephrase i_mean i_meant i_correct_myself on_reflection on_closer looking_closer "
    "looking_closely looking_again "
    "looking_more upon_closer upon_further upon_reflection or_rather rather hmm hm ah oh well_actually "
    "correcting come_to_think "
    "i_take_that_back changed_my_mind i_changed_my_mind i_change_my_answer i_misread i_misspoke i_was_wrong my_error "
    "edit erratum recount recounting thinking_again after_a_second after_another now_that_i scrap_that make_that uh er "
    "checking_again re-checking rechecking double-checking not_quite to_correct in_fact",
    "de": "nein moment warte halt korrektur sorry entschuldigung pardon besser_gesagt vielmehr "
    "ich_korrigiere ich_meine "
    "bei_genauerem bei_näherem doch_nicht quatsch oder_besser tut_mir_leid stopp verzeihung genauer_gesagt "
    "ach_nein eigentlich",
    "fr": "non attends attendez pardon désolé désolée correction en_fait plutôt je_me_corrige "
    "je_voulais_dire à_y_regarder "
    "en_y_regardant en_regardant après_réflexion réflexion_faite je_rectifie erratum oups ou_plutôt excusez",
    "es": "no espera espere perdón perdona disculpa corrección corrijo mejor_dicho en_realidad quise_decir "
    "pensándolo mirándolo "
    "fijándome mirando_mejor me_equivoqué me_corrijo rectifico un_momento lo_siento ups o_más_bien viéndolo",
    "pt": "não espera espere perdão desculpe desculpa correção corrigindo aliás na_verdade melhor_dizendo "
    "quis_dizer pensando_melhor "
    "olhando_melhor olhando_de_novo opa ops me_corrijo retifico digo ou_melhor",
    "it": "no aspetta aspetti scusa scusate scusi scusami correzione anzi in_realtà mi_correggo volevo_dire "
    "ripensandoci guardando_meglio "
    "a_guardare osservando_meglio pardon errata o_meglio mi_sono_sbagliato rettifico ops",
    "nl": "nee wacht sorry correctie pardon eigenlijk bij_nader ik_bedoel toch_niet of_liever excuus oeps ik_corrigeer",
    "pl": "nie czekaj chwila przepraszam poprawka sprostowanie właściwie a_właściwie a_raczej to_znaczy "
    "jednak po_namyśle "
    "po_chwili po_zastanowieniu wróć pardon moment ups korekta poprawiam ale_nie zaraz",
    "ru": "нет подождите подожди погодите стоп извините простите поправка точнее вернее хотя_нет ой "
    "исправляюсь исправлю "
    "при_ближайшем присмотревшись вообще-то пардон ошибся минутку",
    "tr": "hayır dur bekle pardon düzeltme aslında daha_doğrusu yok özür_dilerim dikkatli_bakınca "
    "tekrar_bakınca düzeltiyorum bir_dakika",
    "id": "bukan tunggu maaf eh ralat koreksi sebenarnya maksud_saya setelah_dilihat ternyata oh",
    "vi": "à_không không xin_lỗi khoan đợi nhầm thực_ra đính_chính chờ_đã ý_tôi à",
    "ar": "لا عفوا عفوًا آسف عذرا عذرًا انتظر مهلا مهلًا تصحيح بل في_الواقع أقصد",
    "hi": "नहीं रुकिए रुको माफ़ माफ क्षमा सुधार दरअसल बल्कि असल_में",
    "ko": "아니 아뇨 아니요 아니다 잠깐 잠깐만 잠깐만요 죄송합니다 정정 정정합니다 정정하면 다시 실수 "
    "아 미안 다시_보니 자세히 수정합니다",
}
CORRECTION_DENSE = (
    "等等 等一下 等下 不对 不對 错了 錯了 更正 说错 說錯 抱歉 对不起 對不起 应该是 應該是 仔细看 "
    "仔細看 再看 重新 其实 其實 更准确 哦不 不过等 哎 "
    "失礼 すみません 訂正 いや いえ 待って 待てよ よく見ると 間違え 正しくは もう一度 やっぱり "
    "やはり ごめん おっと ちょっと待"
)
CONCLUSION: Words = {
    "en": "so therefore thus hence consequently conclusion in_conclusion → ∴ overall accordingly in_short "
    "making leaving "
    "leaves which_means this_means that_means which_makes that_makes this_makes which_leaves that_leaves to_conclude "
    "in_summary final_answer ultimately as_a_result finally only",
    "de": "also somit folglich daher deshalb demnach damit fazit dementsprechend mithin daraus bleibt_nur "
    "demzufolge insgesamt schließlich",
    "fr": "donc ainsi par_conséquent conclusion dès_lors c_est_pourquoi en_conclusion il_reste il_ne_reste "
    "finalement alors",
    "es": "así luego entonces por_lo_tanto por_tanto por_consiguiente conclusión de_modo_que así_que por_eso "
    "en_conclusión queda finalmente "
    "por_ende",
    "pt": "portanto logo então assim por_isso conclusão por_conseguinte de_modo_que sobra resta finalmente "
    "desse_modo dessa_forma",
    "it": "quindi dunque perciò pertanto conclusione di_conseguenza resta rimane ne_consegue si_tratta allora ecco",
    "nl": "dus daarom derhalve conclusie bijgevolg blijft kortom daardoor zodoende",
    "pl": "więc zatem dlatego wniosek stąd tak_więc czyli pozostaje razem ostatecznie",
    "ru": "поэтому значит следовательно итак таким_образом вывод стало_быть остаётся остается итого так_что",
    "tr": "dolayısıyla bu_yüzden bu_nedenle öyleyse sonuç o_halde yani geriye demek_ki",
    "id": "jadi maka karena_itu oleh_karena_itu kesimpulannya dengan_demikian sehingga",
    "vi": "vì_vậy do_đó vậy nên vì_thế như_vậy suy_ra kết_luận cho_nên",
    "ar": "لذلك إذن إذا وبالتالي بالتالي لذا فإن إذًا",
    "hi": "इसलिए अतः तो इस_प्रकार",
    "ko": "따라서 그러므로 그래서 결국 결론적으로 즉 남는",
}
CONCLUSION_DENSE = (
    "所以 因此 因而 故 综上 綜上 由此 可见 可見 于是 於是 从而 只有 只能 应该 應該 应选 答案 "
    "结论 結論 よって したがって 従って だから ゆえに つまり "
    "以上より 残る 結論 答え ですので なので ので 므로 니까 최종"
)
TENTATIVE: Words = {
    # A clause with one of these reports a guess that was not kept.
    "en": "at_first first_thought initially originally first_glance first_instinct first_impression "
    "first_guess was_going_to "
    "would_have_guessed have_guessed have_said you'd_think you_would_think one_might one_could you_might you_could "
    "some_would some_might some_people many_would people_might many_people someone_might mistake_this "
    "mistake_it mistaken_for "
    "tempted tempting i_thought i_almost almost_said looks_like_it_could you_may one_may it_may_look "
    "might_look may_look "
    "could_be_mistaken previously i_had_thought i_assumed i_considered i_wanted_to_say was_tempted "
    "was_inclined easy_to_mistake normally usually about_to "
    "easily_mistaken confuse_it confused_with might_seem may_seem may_appear might_appear first_sight i_was_thinking "
    "torn_between i_expected i_mistook mistook was_leaning used_to thought_it_was considered",
    "de": "zunächst zuerst anfangs auf_den_ersten_blick man_könnte könnte_man dachte ursprünglich hielt "
    "verwechseln man_würde "
    "würde_man manche scheinbar erst_dachte vielleicht_denkt",
    "fr": "au_premier_abord à_première_vue on_pourrait on_dirait pourrait_croire d_abord je_pensais j_ai_cru "
    "initialement au_début "
    "certains pourrait_penser j_aurais_dit j_hésitais de_prime_abord",
    "es": "a_primera_vista al_principio podría_parecer parecería uno_pensaría pensé inicialmente "
    "en_un_principio algunos podría_pensarse "
    "podría_confundirse primero_pensé alguien_diría puede_parecer parece_a",
    "pt": "à_primeira_vista a_princípio no_início poderia_parecer pensei inicialmente parecia alguém_poderia "
    "poderia_pensar pode_parecer "
    "confundido primeiro_pensei",
    "it": "a_prima_vista all_inizio inizialmente potrebbe_sembrare pensavo si_potrebbe qualcuno sembrerebbe "
    "sembrava dapprima avevo_pensato "
    "credevo",
    "nl": "op_het_eerste aanvankelijk eerst_dacht dacht lijkt_eerst zou_je je_zou men_zou eerste_gezicht "
    "oorspronkelijk sommigen",
    "pl": "na_pierwszy_rzut na_początku początkowo myślałem mogłoby wydawało można_by ktoś_powie sądziłem "
    "najpierw wydawać",
    "ru": "сначала на_первый_взгляд кто-то можно_подумать может_показаться казалось думал изначально "
    "поначалу первоначально кто показалось "
    "можно_принять",
    "tr": "ilk_bakışta başta önce sanmıştım gibi_görünse sanılabilir düşündüm",
    "id": "sekilas awalnya mulanya saya_kira terlihat_seperti mungkin_tampak tadinya",
    "vi": "thoạt_nhìn ban_đầu lúc_đầu tưởng trông_giống có_thể_nghĩ",
    "ar": "للوهلة_الأولى ظننت قد_يبدو في_البداية يبدو",
    "hi": "पहली_नज़र पहले लगा लगता_था",
    "ko": "처음에는 처음에 처음엔 얼핏 언뜻 보이지만 같지만 생각했지만 보일",
}
TENTATIVE_DENSE = (
    "乍一看 乍看 一开始 一開始 起初 最初 看起来像 看似 误认为 誤認為 误以为 誤以為 以为 以為 本来 "
    "原本 一見 のように見え ように見え のようにも見え ように思 "
    "と思いました と思った 最初は はじめは のように思 처음 얼핏"
)
HYPOTHESIS: Words = {
    "de": "wenn falls",
    "fr": "si s",
    "es": "si",
    "pt": "se caso",
    "it": "se",
    "nl": "als indien",
    "pl": "gdyby jeśli",
    "ru": "если",
    "tr": "eğer",
    "id": "jika kalau seandainya andaikan",
    "vi": "nếu",
    "ar": "لو إذا",
    "hi": "अगर यदि",
    "ko": "만약 만일",
}
"""What a supposition begins with."""
SUPPOSED: Words = {
    "de": "wäre wären hätte",
    "fr": "serait seraient aurait",
    "es": "sería serían fuera fuese hubiera",
    "pt": "seria seriam fosse houvesse",
    "it": "sarebbe sarebbero fosse avrebbe",
    "nl": "zou zouden",
    "pl": "byłby byłaby byłoby",
    "ru": "бы",
    "tr": "olsaydı olurdu",
    "ko": "이라면 라면 였다면",
}
HYPOTHESIS_DENSE = "如果 假如 要是 若 もし 仮に なら であれば だったら"
REFUSED = (
    # Of a language each: what says that the reply gives no answer.
    r"kann ich .{0,60} nicht (?:feststellen|bestimmen|sagen|erkennen|beantworten|sehen)|lässt sich "
    r".{0,80}nicht|nicht (?:eindeutig|sicher) (?:sagen|bestimmen)"
    r"|je ne peux pas|ne permet pas|impossible de (?:dire|déterminer|savoir)|désolé"
    r"|no puedo|no es posible|no se puede|lo siento|não consigo|não é possível|não posso|não dá para|desculpe"
    r"|non posso|non riesco|non è possibile|impossibile (?:dire|stabilire)|mi dispiace|geen uitsluitsel|kan "
    r"ik niet|kan niet (?:worden )?(?:bepaald|zien)"
    r"|nie (?:mogę|można|jestem w stanie|da się)|не могу|невозможно|нельзя|не удаётся|извините|"
    r"belirleyemiyorum|mümkün değil|üzgünüm"
    r"|tidak dapat|tidak bisa|maaf|không thể|xin lỗi|لا "
    r"أستطيع|لا يمكن|عذرا|नहीं कर सकता|माफ़|판단하기 어렵|알 수 없|수 "
    r"없습니다|죄송|判断できません|わかりません|分かりません|申し訳"
    r"|見えません|できません|不確定|無法|看不清|不清楚"
)

NUMBERS: Words = {
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn",
    "fr": "zéro - deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze",
    "es": "cero - dos tres cuatro cinco seis siete ocho nueve diez - doce trece catorce quince",
    "pt": "zero - dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze",
    "pt-f": "- - duas",
    "it": "zero - due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici",
    "nl": "nul - twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien",
    "pl": "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście dwanaście "
    "trzynaście czternaście piętnaście",
    "pl-f": "- jedna dwie - czterech pięciu sześciu siedmiu ośmiu",
    "pl-m": "- - dwóch trzech czterej",
    "ru": "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать "
    "четырнадцать пятнадцать",
    "ru-f": "- одна две трое четверо пятеро шестеро семеро",
    "ru-g": "- - двое трёх четырёх пяти шести",
    "tr": "sıfır - iki üç dört beş altı yedi sekiz dokuz on",
    "id": "nol satu dua tiga empat lima enam tujuh delapan sembilan sepuluh",
    "vi": "- - hai ba bốn - sáu bảy tám chín mười",
    "ar": "صفر واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
    "ar-f": "- واحدة اثنين ثلاث أربع خمس ست سبع ثماني تسع عشر",
    "hi": "शून्य एक दो तीन चार पांच छह सात आठ नौ दस",
    "hi-2": "- - - - - पाँच छः",
    "ko": "영 하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열",
    "ko-2": "- 한 두 세 네 - - - - - -",
}
"""The number words of each language in order from zero; `-` where the word means something else too."""

YES: Words = {
    "mixed": "yes yeah yep ja oui si sí sim sì да tak evet ya có "
    "vâng نعم हाँ हां 네 예 是 是的 はい 对 有 correct affirmative"
}
NO: Words = {
    "mixed": "no nope nein non não нет nie nee hayır tidak không "
    "لا नहीं 아니요 아니오 아뇨 否 不 不是 いいえ 不对 没有 negative"
}

ARTICLES = frozenset(
    "un une le la les el los las una der das ein eine einen einem einer il lo gli um uma het een l dell "
    "den die de o os as i dem des del".split()
)
SURE_ARTICLES = frozenset("un une le la les el los las una der das ein eine einen il lo gli um uma het een l".split())

KOREAN_PARTICLES = (
    "이|가|은|는|을|를|의|에|에서|로|으로|와|과|도|만|입니다|이다|이에요|예요|이네요|네요|"
    "였습니다|이었습니다|임|이며|이고|이라고|라고|라는|이라는|"
    "인|으로는|로는|에는|에서는|까지|부터|처럼|같습니다|이|다|들이|들은|들을|들|이므로|므로|"
    "이라서|라서|이지만|지만|이었|이나|나|이라|라|이죠|죠|요|하고|한|하는|이랑|랑|"
    "인지|이었어요|였어요|인데|이니|니|이라면|인 것|입니까|이란|란"
)
TURKISH_ENDINGS = (
    "i|ı|u|ü|yi|yı|yu|yü|si|sı|su|sü|in|ın|un|ün|nin|nın|nun|nün|e|a|ye|ya|de|da|te|ta|den|dan|ten|tan|ler|"
    "lar|leri|ları|dir|dır|dur|dür|tir|tır|tur|tür|le|la|"
    "yle|yla|ni|nı|ne|na|nde|nda|si|sı|dı|di|m|im|ım"
)
ENDINGS = (
    # Endings of words that decline, each a replacement for another: Latin letters, then Cyrillic.
    "e en er es em n s a o as os i ę ą y ów om ami ach iem em u ie owi owie ego emu ej ych ym im iego ia "
    "ią io ii ien nen rn ern",
    "а у ы и е ой ою ом ами ах ам ый ая ое ые ого ому ую ий яя ее ие его ему юю ым им ых их ю я ь ью ям "
    "ями ях ей ев ов ые ем ём ок ка",
)
ENGLISH_ENDINGS = "s es d ed e ing"

ENGLISH = frozenset(
    "the is are was were it it's this that of and in to for with because so as not i'd i'm there there's "
    "be by at from or "
    "image picture shows show which but we see can has have two wait actually choice answer correct sorry "
    "she he they his her "
    "than then rather would could alternative since thus therefore option letter three four five six seven "
    "eight nine ten "
    "wrong right likely think most only into if does doesn't isn't they're what looks look like".split()
)
_EITHER = frozenset(
    "a i no me on die is in was hat war per sin come son main all or as am an do so son if of non on sei red "
    "man men car door incorrect impossible plus null na option letter alternative conclusion solution item "
    "final note gold ten six more per pour fin nee doch".split()
)
"""Words of English and of another language too say nothing about the language."""
_BY_LANGUAGE = {
    language: frozenset(
        word
        for table in (
            MARKERS,
            NEGATION,
            NEGATION_BEHIND,
            ANSWER,
            OPTION,
            CORRECT,
            WRONG,
            CHOOSE,
            CONTRAST,
            CORRECTION,
            CONCLUSION,
            HYPOTHESIS,
            NUMBERS,
        )
        for word in table.get(language, "").split()
        if "_" not in word
    )
    - ENGLISH
    - _EITHER
    for language in MARKERS
}
_BY_LANGUAGE = {
    language: frozenset(w for w in words if len(w) > 1 or w in "éèàyłw") for language, words in _BY_LANGUAGE.items()
}
_LETTERS = {
    "de": "äöüß", "fr": "éèêëàâçùûîïôœ", "es": "áéíóúñ¿¡", "pt": "ãõçáéíóúâêô", "it": "èàòùìé", "nl": "ëïé",
    "pl": "ąćęłńóśźż", "tr": "ğışçöüİ", "vi": "ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
}  # fmt: skip
SCRIPTS = {
    "ru": ("\u0400", "\u04ff"),
    "ar": ("\u0600", "\u06ff"),
    "hi": ("\u0900", "\u097f"),
    "ko": ("\uac00", "\ud7a3"),
}


@lru_cache(maxsize=16384)
def _votes(word: str) -> tuple[str, ...]:
    """The languages that a word speaks for; "en" for English."""
    first = word[0]
    if not first.isascii():
        by_script = [language for language, (low, high) in SCRIPTS.items() if low <= first <= high]
        if by_script:
            return tuple(by_script)
    named = [language for language, words in _BY_LANGUAGE.items() if word in words]
    if not word.isascii():
        named += [language for language, letters in _LETTERS.items() if any(sign in letters for sign in word)]
    return (*named, "en") if word in ENGLISH else tuple(named)


SPEAKING = frozenset[str]().union(*_BY_LANGUAGE.values())
"""Words that speak for a language other than English."""


def votes_of(words: Iterable[str]) -> Counter[str]:
    """How many words speak for each language other than English."""
    counted = Counter(language for word in words for language in _votes(word))
    counted.pop("en", 0)
    return counted


def guess(said: Iterable[str], options: Counter[str]) -> tuple[str, ...]:
    """The languages other than English that a reply may be in; none for English. The options' words vote too."""
    counted = Counter(language for word in said for language in _votes(word))
    english = counted.pop("en", 0)
    counted.update(options)
    most = max(counted.values(), default=0)
    return tuple(sorted(language for language, votes in counted.items() if votes == most)) if most > english else ()
